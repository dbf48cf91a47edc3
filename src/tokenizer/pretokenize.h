// Splits text into pre-tokens: merges never cross their boundaries. For each supported regular expression
// there is a handwritten scanner, which returns exactly the regex's matches in linear time and without
// recursion.
//
//   GPT-2:   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   Llama 3: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//   ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace krafla {

struct PretokenizeRules {
  bool gpt2_regex = false;     // else the Llama 3 one
  bool single_digits = false;  // \p{N} in place of \p{N}{1,3}; the GPT-2 regex has neither
  bool split_digits = false;   // every numeric character is a piece; the text on both sides is matched apart
  bool marks_are_letters = false;  // [\p{L}\p{M}] in place of \p{L}
};

/// Immutable and thread-safe.
class Pretokenizer {
 public:
  explicit Pretokenizer(const PretokenizeRules& rules);

  /// The length of the first pre-token of `text`, which is not empty. Any bytes are legal: an invalid UTF-8
  /// byte counts as a character that is neither letter, number nor space. Splitting a whole text with
  /// repeated calls takes linear time.
  std::size_t next(std::string_view text) const;

 private:
  enum Class : std::uint8_t {
    kOther,
    kLetter,
    kNumber,
    kSpace,
    kNewline
  };  // how the regex classifies a character
  struct Char {
    Class cls;
    std::uint8_t length;
  };
  Char wide(std::string_view text, std::size_t at) const;
  Char char_at(std::string_view text, std::size_t at) const {
    const auto byte = static_cast<std::uint8_t>(text[at]);
    return byte < 0x80 ? Char{ascii_[byte], 1} : wide(text, at);
  }
  std::size_t skip(std::string_view text, std::size_t at, Class cls) const;
  bool is(std::string_view text, std::size_t at, Class cls) const {
    return at < text.size() && char_at(text, at).cls == cls;
  }
  std::size_t contraction(std::string_view text) const;
  std::size_t next_gpt2(std::string_view text) const;
  std::size_t next_llama3(std::string_view text) const;
  std::size_t whitespace(std::string_view text) const;

  PretokenizeRules rules_;
  std::array<Class, 128> ascii_;
  std::array<Class, 6> by_class_;  // CodePointClass -> Class
};

}  // namespace krafla
