#include "tokenizer/joints.h"

#include <algorithm>

#include "tokenizer/unicode.h"

namespace krafla {
namespace {

constexpr int kBits = 21;                // 256 KB: an eighth full with the largest vocabularies
constexpr char32_t kRawByte = 0x110000;  // + a byte that is not UTF-8
constexpr char32_t kNone = 0xFFFFFFFF;

Utf8Char first_char(std::string_view text) {
  const Utf8Char c = read_utf8(text);
  return c.valid ? c : Utf8Char{.code = kRawByte + static_cast<std::uint8_t>(text[0]), .length = 1};
}

/// The last character of a text that is not empty.
char32_t last_char(std::string_view text) {
  for (std::size_t n = 1; n <= std::min<std::size_t>(4, text.size()); ++n) {
    const Utf8Char c = read_utf8(text.substr(text.size() - n));
    if (c.valid && c.length == n) return c.code;
  }
  return kRawByte + static_cast<std::uint8_t>(text.back());
}

}  // namespace

std::size_t Joints::bit_of(char32_t left, char32_t right) {
  const std::uint64_t pair = std::uint64_t{left} << 32 | right;
  return static_cast<std::size_t>((pair * 0x9E3779B97F4A7C15u) >> (64 - kBits));
}

Joints::Joints(const Mlt& mlt, const Vocabulary& vocabulary) : wide_((std::size_t{1} << kBits) / 64) {
  struct Ends {
    char32_t first = kNone, last = kNone;
  };
  std::vector<Ends> ends(vocabulary.size());
  for (std::size_t id = 0; id < ends.size(); ++id)
    if (const std::string_view bytes = vocabulary.bytes(static_cast<std::int32_t>(id)); !bytes.empty())
      ends[id] = {first_char(bytes).code, last_char(bytes)};
  for (const MltMerge& merge : mlt.merges) {
    const char32_t last = ends[merge.left].last, first = ends[merge.right].first;
    if (last == kNone || first == kNone) continue;  // no text becomes a token of no bytes
    if ((last | first) < 0x80) ascii_[last * 0x80 + first] = true;
    // A byte token is a part of some character: the rule may apply anywhere.
    if (std::max(last, first) >= kRawByte) cuts_ = false;
    const std::size_t bit = bit_of(last, first);
    wide_[bit / 64] |= std::uint64_t{1} << (bit % 64);
  }
}

std::size_t Joints::next(std::string_view text) const {
  if (!cuts_) return text.size();
  Utf8Char c = first_char(text);
  std::size_t at = c.length;
  while (at < text.size()) {
    const auto byte = static_cast<std::uint8_t>(text[at]);
    const Utf8Char after = byte < 0x80 ? Utf8Char{.code = byte} : first_char(text.substr(at));
    if (!joined(c.code, after.code)) break;
    at += after.length;
    c = after;
  }
  return at;
}

}  // namespace krafla
