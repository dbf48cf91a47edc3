#include "tokenizer/merge_boundaries.h"

namespace krafla {
namespace {

constexpr int kBits = 21;             // 256 KB: an eighth full with the largest vocabularies
constexpr char32_t kPart = 0x110000;  // + the byte with which a token begins or ends within a character
constexpr char32_t kNone = 0xFFFFFFFF;

char32_t part(char byte) { return kPart + static_cast<std::uint8_t>(byte); }

bool continues(char byte) { return (byte & 0xC0) == 0x80; }

/// The first character of a right token, or kPart + its first byte if it holds only the beginning of a
/// character. kNone if it begins within a character, because text is never cut there.
char32_t first_of(std::string_view token) {
  if (continues(token[0])) return kNone;
  const Utf8Char c = read_utf8(token);
  return c.valid ? c.code : part(token[0]);
}

/// The last character of a left token, or kPart + its last byte if that ends a character whose beginning the
/// token lacks. kNone if the token ends within a character.
char32_t last_of(std::string_view token) {
  std::size_t n = 1;
  while (n < 4 && n < token.size() && continues(token[token.size() - n])) ++n;
  const Utf8Char c = read_utf8(token.substr(token.size() - n));
  if (c.valid && c.length == n) return c.code;
  return c.cut && c.length == n ? kNone : part(token.back());
}

}  // namespace

std::size_t MergeBoundaries::bit_of(char32_t left, char32_t right) {
  const std::uint64_t pair = std::uint64_t{left} << 32 | right;
  return static_cast<std::size_t>((pair * 0x9E3779B97F4A7C15u) >> (64 - kBits));
}

MergeBoundaries::MergeBoundaries(const Mlt& mlt, const Vocabulary& vocabulary)
    : pairs_((std::size_t{1} << kBits) / 64) {
  struct Ends {
    char32_t first = kNone, last = kNone;
  };
  std::vector<Ends> ends(vocabulary.size());
  for (std::size_t id = 0; id < ends.size(); ++id)
    if (const std::string_view bytes = vocabulary.bytes(static_cast<std::int32_t>(id)); !bytes.empty())
      ends[id] = {first_of(bytes), last_of(bytes)};
  for (const MltMerge& merge : mlt.merges) {
    const char32_t last = ends[merge.left].last, first = ends[merge.right].first;
    if (last == kNone || first == kNone || last >= kPart || first >= kPart) whole_characters_ = false;
    if (last == kNone || first == kNone) continue;
    if (last >= kPart) partial_left_[last - kPart] = true;
    if (first >= kPart) partial_right_[first - kPart] = true;
    if ((last | first) < 0x80) ascii_[last * 0x80 + first] = true;
    const std::size_t bit = bit_of(last, first);
    pairs_[bit / 64] |= std::uint64_t{1} << (bit % 64);
  }
}

/// Whether a merge may join two adjacent characters. `left` is exactly the bytes of `l`; `right` begins with
/// those of `r`.
bool MergeBoundaries::may_merge(std::string_view left, Utf8Char l, std::string_view right, Utf8Char r) const {
  // Bytes that are not UTF-8 may be part of any token.
  if (!l.valid || !r.valid) return !whole_characters_;
  if (has(l.code, r.code)) return true;
  const bool part_left = partial_left_[static_cast<std::uint8_t>(left.back())],
             part_right = partial_right_[static_cast<std::uint8_t>(right[0])];
  return (part_right && has(l.code, part(right[0]))) || (part_left && has(part(left.back()), r.code)) ||
         (part_left && part_right && has(part(left.back()), part(right[0])));
}

std::size_t MergeBoundaries::next(std::string_view text) const {
  const auto read = [&](std::size_t at) {
    Utf8Char c = read_utf8(text.substr(at));
    if (!c.valid) c.length = 1;
    return c;
  };
  std::size_t before = 0;
  Utf8Char c = read(0);
  for (std::size_t at = c.length; at < text.size(); at += c.length) {
    const Utf8Char after = read(at);
    if ((c.code | after.code) < 0x80 && c.valid && after.valid) {
      if (!ascii_[c.code * 0x80 + after.code]) return at;
    } else if (!may_merge(text.substr(before, at - before), c, text.substr(at), after)) {
      return at;
    }
    before = at;
    c = after;
  }
  return text.size();
}

}  // namespace krafla
