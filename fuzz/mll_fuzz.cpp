// Any bytes as saved logits: an Error, or rows that lie in the file and ids that lie in the vocabulary.
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "formats/mll.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const krafla::Mll saved = krafla::parse_mll({data, size}, "fuzz.mll");
    std::uint64_t rows = 0;
    for (std::size_t i = 0; i < saved.text.windows.count; ++i) {
      const krafla::Window window = saved.text.windows[i];
      if (window.begin + window.count > saved.text.ids.size()) std::abort();
      rows += window.rows();
    }
    if (rows != saved.text.windows.rows() || rows * saved.text.vocab != saved.rows.size()) std::abort();
    for (const std::int32_t id : saved.text.ids)
      if (id < 0 || static_cast<std::size_t>(id) >= saved.text.vocab) std::abort();
    if (reinterpret_cast<const std::uint8_t*>(saved.rows.data() + saved.rows.size()) != data + size)
      std::abort();
  } catch (const krafla::Error& e) {
    if (e.status() != ML_E_FORMAT) std::abort();
  }
  return 0;
}
