// Any bytes as a .safetensors file: an Error, or tensors that cover the file's data and can be read.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "formats/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    std::size_t covered = 0;
    for (const krafla::SafeTensor& t : krafla::parse_safetensors({data, size}, "fuzz.safetensors")) {
      covered += t.data.size();
      if (t.rows() * t.cols() * t.dtype->bits / 8 != t.data.size()) std::abort();
      if (!krafla::can_decode(*t.dtype)) continue;
      std::vector<float> all(t.data.size() / (t.dtype->bits / 8));
      krafla::decode_floats(*t.dtype, t.data, all);
    }
    if (covered > size) std::abort();
  } catch (const krafla::Error& e) {
    if (e.status() != ML_E_FORMAT) std::abort();
  }
  return 0;
}
