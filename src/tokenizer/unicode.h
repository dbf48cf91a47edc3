// UTF-8 as untrusted bytes, and the classes of code points that pre-tokenizers tell apart (Unicode 16).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace krafla {

/// General categories L, N, M, the property White_Space, and numbers newer than Unicode 16 (see tools/make_unicode.py).
enum class CodePointClass : std::uint8_t { kOther, kLetter, kNumber, kMark, kSpace, kLaterNumber };

/// The class of any code point; of values that are none, kOther.
CodePointClass code_point_class(char32_t code);

struct Utf8Char {
  char32_t code = 0;
  std::uint8_t length = 1;  // if not valid: of the longest prefix of some character that stands here, at least 1
  bool valid = false;
  bool cut = false;  // not valid only because the text ends
};

/// The character at the start of `text`, which is not empty. Overlong forms, surrogates and code points beyond U+10FFFF are not valid.
Utf8Char read_utf8(std::string_view text);

/// How many bytes at the end of `text` (0..3) begin a character that more bytes could complete.
std::size_t incomplete_utf8_tail(std::string_view text);

/// `text` with U+FFFD for what is not UTF-8, one for each longest prefix of a character, as Unicode and WHATWG recommend.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace krafla
