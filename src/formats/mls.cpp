#include "formats/mls.h"

#include <optional>

#include "formats/file_start.h"

namespace krafla {
namespace {

constexpr std::uint32_t kMostPositions = 1u << 24;
constexpr std::uint64_t kAlign = 64;

std::optional<std::uint64_t> group_bytes(const MlsHeader& header, std::size_t group) {
  return checked_mul(mls_pages(header, group), header.page_bytes[group]);
}

void check_header(const MlsHeader& h, std::string_view name) {
  if (h.kv_type > 2)
    fail(ML_E_FORMAT, "{}: kv_type is {}; allowed: 0 (f16), 1 (f32), 2 (q8_0)", name, h.kv_type);
  if (h.length < 1 || h.length > kMostPositions)
    fail(ML_E_FORMAT, "{}: length is {}; allowed: 1 to {}", name, h.length, kMostPositions);
  const std::uint32_t last = (h.length - 1) / 64;
  if (h.first_windowed > (h.page_bytes[1] == 0 ? 0 : last))
    fail(ML_E_FORMAT, "{}: first_windowed is {}; allowed: at most {}", name, h.first_windowed,
         h.page_bytes[1] == 0 ? 0 : last);
  if (h.reserved != 0) fail(ML_E_FORMAT, "{}: the reserved field is {}; allowed: 0", name, h.reserved);
  for (std::size_t group = 0; group < kMlsGroups; ++group)
    if (h.page_bytes[group] % kAlign != 0)
      fail(ML_E_FORMAT, "{}: page_bytes[{}] is {}; allowed: multiples of {}", name, group,
           h.page_bytes[group], kAlign);
}

}  // namespace

std::uint64_t mls_pages(const MlsHeader& header, std::size_t group) {
  if (header.page_bytes[group] == 0) return 0;
  const std::uint64_t pages = (std::uint64_t{header.length} + 63) / 64;
  return group == 2 ? 1 : group == 1 ? pages - header.first_windowed : pages;
}

Mls parse_mls(Bytes file, std::string_view name) {
  if (reinterpret_cast<std::uintptr_t>(file.data()) % alignof(std::int32_t) != 0)
    fail(ML_E_ARG, "{}: the bytes are not aligned to 4", name);
  check_file_start(file, "MLS1", kMlsHeaderBytes, name);
  ByteReader in(file, name);
  in.take(kFileStartBytes, "magic and version");
  Mls mls;
  mls.header = in.read<MlsHeader>("header");
  check_header(mls.header, name);
  mls.content = file.subspan(kMlsHeaderBytes);
  const Bytes ids = in.take(std::uint64_t{mls.header.length} * sizeof(std::int32_t), "ids");
  mls.ids = {reinterpret_cast<const std::int32_t*>(ids.data()), mls.header.length};
  in.take((kAlign - in.position() % kAlign) % kAlign, "padding");
  for (std::size_t group = 0; group < kMlsGroups; ++group) {
    const auto bytes = group_bytes(mls.header, group);
    if (!bytes)
      fail(ML_E_FORMAT, "{}: {} pages of {} bytes are more than a file holds", name,
           mls_pages(mls.header, group), mls.header.page_bytes[group]);
    mls.pages[group] = in.take(*bytes, "pages");
  }
  if (in.remaining() != 0)
    fail(ML_E_FORMAT, "{}: {} bytes follow the last page; allowed: none", name, in.remaining());
  return mls;
}

}  // namespace krafla
