// UTF-8 as untrusted bytes, and the classes of code points that pre-tokenizers tell apart (Unicode 16).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace krafla {

/// General categories L, N, M, the property White_Space, and numbers newer than Unicode 16 (see
/// tools/make_unicode.py).
enum class CodePointClass : std::uint8_t { kOther, kLetter, kNumber, kMark, kSpace, kLaterNumber };

/// The class of any code point; of values that are none, kOther.
CodePointClass code_point_class(char32_t code);

struct Utf8Char {
  char32_t code = 0;
  std::uint8_t length =
      1;  // if not valid: of the longest prefix of some character that stands here, at least 1
  bool valid = false;
  bool cut = false;  // not valid only because the text ends
};

/// As read_utf8(), for what that leaves over.
Utf8Char read_any_utf8(std::string_view text);

/// Whether `text` begins with a character of U+5000..8FFF: letters, in NFC whatever stands around them. Most
/// Chinese text is.
inline bool is_ideograph(std::string_view text) {
  return text.size() >= 3 && static_cast<std::uint8_t>(text[0]) - 0xE5u < 4 && (text[1] & 0xC0) == 0x80 &&
         (text[2] & 0xC0) == 0x80;
}

/// The character at the start of `text`, which is not empty. Overlong forms, surrogates and code points
/// beyond U+10FFFF are not valid.
inline Utf8Char read_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<std::uint8_t>(text[i])); };
  if (byte(0) < 0x80) return {.code = byte(0), .length = 1, .valid = true};
  if (is_ideograph(text))
    return {.code = (byte(0) & 15) << 12 | (byte(1) & 63) << 6 | (byte(2) & 63), .length = 3, .valid = true};
  return read_any_utf8(text);
}

/// How many bytes at the end of `text` (0..3) begin a character that more bytes could complete.
std::size_t incomplete_utf8_tail(std::string_view text);

/// `text` with U+FFFD for what is not UTF-8, one for each longest prefix of a character, as Unicode and
/// WHATWG recommend.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace krafla
