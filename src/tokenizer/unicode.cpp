#include "tokenizer/unicode.h"

#include <algorithm>
#include <iterator>

namespace krafla {
namespace {

#include "tokenizer/unicode_tables.inc"

constexpr std::size_t kBlockSize = 128;

/// What follows a lead byte: the length of its character, and the range of the second byte. Further bytes are
/// always 80..BF.
struct Lead {
  std::uint8_t length, low, high;
};

constexpr Lead lead(std::uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};  // below: overlong
  if (byte == 0xED) return {3, 0x80, 0x9F};  // above: surrogates
  if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // above: beyond U+10FFFF
  return {1, 0, 0};
}

}  // namespace

CodePointClass code_point_class(char32_t code) {
  const std::size_t block = code / kBlockSize;
  if (block >= std::size(kIndex))  // the table ends before plane 14, where variation selectors are marks
    return code >= 0xE0100 && code <= 0xE01EF ? CodePointClass::kMark : CodePointClass::kOther;
  const std::uint8_t pair = kBlocks[(kIndex[block] * kBlockSize + code % kBlockSize) / 2];
  return static_cast<CodePointClass>(code % 2 == 0 ? pair & 15 : pair >> 4);
}

Utf8Char read_any_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const Lead first = lead(byte(0));
  if (first.length == 1) return {};
  char32_t code = byte(0) & (0x7Fu >> first.length);
  for (std::uint8_t i = 1; i < first.length; ++i) {
    if (i == text.size()) return {.length = i, .cut = true};
    const std::uint8_t low = i == 1 ? first.low : 0x80, high = i == 1 ? first.high : 0xBF;
    if (byte(i) < low || byte(i) > high) return {.length = i};
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  return {.code = code, .length = first.length, .valid = true};
}

std::size_t incomplete_utf8_tail(std::string_view text) {
  for (std::size_t n = std::min<std::size_t>(3, text.size()); n > 0; --n) {
    const Utf8Char c = read_utf8(text.substr(text.size() - n));
    if (c.cut && c.length == n) return n;
  }
  return 0;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char c = read_utf8(text);
    result += c.valid ? text.substr(0, c.length) : "\xEF\xBF\xBD";
    text.remove_prefix(c.length);
  }
  return result;
}

}  // namespace krafla
