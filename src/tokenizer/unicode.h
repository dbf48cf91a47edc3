// Reads UTF-8 out of untrusted bytes, and classifies code points as pre-tokenizers need it (Unicode 16).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace krafla {

/// The general categories L, N and M, the property White_Space, and numbers that are newer than Unicode 16
/// (see tools/make_unicode.py).
enum class CodePointClass : std::uint8_t { kOther, kLetter, kNumber, kMark, kSpace, kLaterNumber };

/// The class of a code point; kOther for an invalid one.
CodePointClass code_point_class(char32_t code);

struct Utf8Char {
  char32_t code = 0;
  std::uint8_t length = 1;  // if not valid: of the longest prefix of a character found here, at least 1
  bool valid = false;
  bool cut = false;  // not valid, but only because the text ends within the character
};

/// read_utf8() of characters that its fast paths do not handle.
Utf8Char read_any_utf8(std::string_view text);

/// Whether `text` begins with a character in U+5000..8FFF, as most Chinese characters are. They are letters,
/// and NFC never changes them.
inline bool is_ideograph(std::string_view text) {
  return text.size() >= 3 && static_cast<std::uint8_t>(text[0]) - 0xE5u < 4 && (text[1] & 0xC0) == 0x80 &&
         (text[2] & 0xC0) == 0x80;
}

/// The character at the start of `text`, which is not empty. Overlong forms, surrogates and code points
/// beyond U+10FFFF are invalid.
inline Utf8Char read_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<std::uint8_t>(text[i])); };
  if (byte(0) < 0x80) return {.code = byte(0), .length = 1, .valid = true};
  if (is_ideograph(text))
    return {.code = (byte(0) & 15) << 12 | (byte(1) & 63) << 6 | (byte(2) & 63), .length = 3, .valid = true};
  return read_any_utf8(text);
}

/// The length (0 to 3) of an incomplete character at the end of `text`, which further bytes could complete.
std::size_t incomplete_utf8_tail(std::string_view text);

/// `text` with U+FFFD in place of invalid UTF-8: one for each longest prefix of a character, as Unicode and
/// WHATWG recommend.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace krafla
