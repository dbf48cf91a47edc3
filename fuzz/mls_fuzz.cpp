// Any bytes as a saved sequence: an Error, or views that lie within the bytes and fill them.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "formats/mls.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint32_t> aligned((size + 3) / 4);
  if (size > 0) std::memcpy(aligned.data(), data, size);
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(aligned.data());
  try {
    const krafla::Mls mls = krafla::parse_mls({bytes, size}, "fuzz.mls");
    std::size_t total = krafla::kMlsHeaderBytes + (mls.ids.size_bytes() + 63) / 64 * 64;
    for (std::size_t group = 0; group < krafla::kMlsGroups; ++group) {
      const krafla::Bytes pages = mls.pages[group];
      if (pages.size() != krafla::mls_pages(mls.header, group) * mls.header.page_bytes[group]) std::abort();
      if (!pages.empty() && (pages.data() < bytes || pages.data() + pages.size() > bytes + size))
        std::abort();
      total += pages.size();
    }
    if (total != size || mls.content.size() + krafla::kMlsHeaderBytes != size) std::abort();
  } catch (const krafla::Error& e) {
    if (e.status() != ML_E_FORMAT) std::abort();
  }
  return 0;
}
