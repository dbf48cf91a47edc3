// Any bytes as an importance matrix: an Error, or sums that are all finite.
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "formats/mli.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const krafla::Mli m = krafla::parse_mli({data, size}, "fuzz.mli");
    if (size != 40 + 8 * m.sums.size() || m.classifier().size() != m.dim) std::abort();
    for (std::size_t i = 0; i < m.n_layers; ++i)
      for (const double sum : m.layer(i, krafla::MliSlot::down))
        if (!std::isfinite(sum)) std::abort();
  } catch (const krafla::Error& e) {
    if (e.status() != ML_E_FORMAT && e.status() != ML_E_SHAPE) std::abort();
  }
  return 0;
}
