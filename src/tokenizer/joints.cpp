#include "tokenizer/joints.h"

namespace krafla {
namespace {

constexpr int kBits = 21;             // 256 KB: an eighth full with the largest vocabularies
constexpr char32_t kPart = 0x110000;  // + the byte at which a token begins or ends within a character
constexpr char32_t kNone = 0xFFFFFFFF;

char32_t part(char byte) { return kPart + static_cast<std::uint8_t>(byte); }

bool continues(char byte) { return (byte & 0xC0) == 0x80; }

/// What a right token begins with; kNone if it begins within a character, where no text is cut.
char32_t first_of(std::string_view token) {
  if (continues(token[0])) return kNone;
  const Utf8Char c = read_utf8(token);
  return c.valid ? c.code : part(token[0]);
}

/// What a left token ends with; kNone if it ends within a character.
char32_t last_of(std::string_view token) {
  std::size_t n = 1;
  while (n < 4 && n < token.size() && continues(token[token.size() - n])) ++n;
  const Utf8Char c = read_utf8(token.substr(token.size() - n));
  if (c.valid && c.length == n) return c.code;
  return c.cut && c.length == n ? kNone : part(token.back());
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
      ends[id] = {first_of(bytes), last_of(bytes)};
  for (const MltMerge& merge : mlt.merges) {
    const char32_t last = ends[merge.left].last, first = ends[merge.right].first;
    if (last == kNone || first == kNone || last >= kPart || first >= kPart) whole_characters_ = false;
    if (last == kNone || first == kNone) continue;
    if (last >= kPart) parts_left_[last - kPart] = true;
    if (first >= kPart) parts_right_[first - kPart] = true;
    if ((last | first) < 0x80) ascii_[last * 0x80 + first] = true;
    const std::size_t bit = bit_of(last, first);
    wide_[bit / 64] |= std::uint64_t{1} << (bit % 64);
  }
}

/// Whether a merge may cross between two characters, of the bytes `left` and `right`.
bool Joints::joined(std::string_view left, Utf8Char l, std::string_view right, Utf8Char r) const {
  if (!l.valid || !r.valid)
    return !whole_characters_;  // bytes that are not UTF-8 may be the parts of any token
  if (has(l.code, r.code)) return true;
  const bool part_left = parts_left_[static_cast<std::uint8_t>(left.back())],
             part_right = parts_right_[static_cast<std::uint8_t>(right[0])];
  return (part_right && has(l.code, part(right[0]))) || (part_left && has(part(left.back()), r.code)) ||
         (part_left && part_right && has(part(left.back()), part(right[0])));
}

std::size_t Joints::next(std::string_view text) const {
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
    } else if (!joined(text.substr(before, at - before), c, text.substr(at), after)) {
      return at;
    }
    before = at;
    c = after;
  }
  return text.size();
}

}  // namespace krafla
