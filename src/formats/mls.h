// MLS1, a saved sequence (docs/formats/mls.md): token ids and the pages of keys, values and recurrent states
// that a model has made of them. Views into the mapped file.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/bytes.h"

namespace krafla {

inline constexpr std::size_t kMlsHeaderBytes = 64;

/// The three kinds of pages, in file order: of layers that see everything, of layers with a window, of linear
/// layers.
inline constexpr std::size_t kMlsGroups = 3;

/// The header as it lies in the file, from offset 8 on.
struct MlsHeader {
  std::uint64_t model = 0;                             // base/hash.h of the .mlb
  std::uint64_t content = 0;                           // base/hash.h of everything behind the header
  std::uint32_t kv_type = 0;                           // 0: f16, 1: f32, 2: q8_0
  std::uint32_t length = 0;                            // positions, at least 1
  std::uint32_t first_windowed = 0;                    // the first page of the windowed layers that is there
  std::uint32_t reserved = 0;                          // 0
  std::array<std::uint64_t, kMlsGroups> page_bytes{};  // 0: the model has no such layers

  bool operator==(const MlsHeader&) const = default;
};
static_assert(sizeof(MlsHeader) == kMlsHeaderBytes - 8);

struct Mls {
  MlsHeader header;
  std::span<const std::int32_t> ids;    // [length]
  std::array<Bytes, kMlsGroups> pages;  // whole pages, one after the other
  Bytes content;                        // everything behind the header
};

/// Pages that a file with this header has of a group.
std::uint64_t mls_pages(const MlsHeader& header, std::size_t group);

/// Parses a file; `file` is aligned to 4 bytes (a mapping is). ML_E_FORMAT naming the field, as the page
/// lists them. The content's hash is not looked at: who has threads compares it (state/saved_sequence.h).
Mls parse_mls(Bytes file, std::string_view name);

}  // namespace krafla
