// A string that remembers which of its bytes came out of the conversation and not out of the template. Every
// operation of the engine that makes strings of strings goes through append and slice, so the marks follow
// the bytes. Characters are code points; a byte that is no valid UTF-8 counts as one character.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_range.h"

namespace krafla::jinja {

struct Text {
  std::string bytes;
  std::vector<TextRange> literal;  // ascending, apart, never empty: what a user wrote
  bool markup = false;             // the outcome of `safe` or `escape`: + escapes what it is joined with

  Text() = default;
  explicit Text(std::string text, bool is_literal = false);

  void append(std::string_view text, bool is_literal = false);
  void append(const Text& other) { append(other, 0, other.bytes.size()); }
  /// Bytes [first, last) of another text.
  void append(const Text& other, std::size_t first, std::size_t last);
  /// One changed character in the place of `other`'s bytes [first, last).
  void append_changed(std::string_view text, const Text& other, std::size_t first, std::size_t last);
  Text slice(std::size_t first, std::size_t last) const;
  bool touches_literal(std::size_t first, std::size_t last) const;

 private:
  void mark(std::size_t first, std::size_t last);
};

/// Bytes of one text. ML_E_FORMAT beyond; what makes larger ones of others sees to it.
constexpr std::size_t kMaxText = std::size_t{64} << 20;
void check_text(std::uint64_t bytes);

/// The character at `at` (a raw byte where there is no valid UTF-8) and its bytes.
struct Character {
  std::uint32_t code;
  std::size_t size;
};
Character character_at(std::string_view text, std::size_t at);
/// Offsets of all characters, and the text's size at the end.
std::vector<std::size_t> character_offsets(std::string_view text);
std::size_t count_characters(std::string_view text);
std::string utf8(std::uint32_t code);

/// As Python's str.isspace of one character.
bool is_space(std::uint32_t code);
/// Case of ASCII, Latin-1, Latin Extended-A, Greek and Cyrillic letters; others stay as they are.
std::uint32_t to_upper(std::uint32_t code);
std::uint32_t to_lower(std::uint32_t code);

/// The range of `text` without white space, or without the characters of `characters`, at its ends.
TextRange stripped(std::string_view text, bool left, bool right,
                   const std::string_view* characters = nullptr);
/// All of `from` becomes `to`, at most `count` times (negative: all). Checks the size.
Text replaced(const Text& text, std::string_view from, const Text& to, std::int64_t count);
enum class Case { kUpper, kLower, kCapitalize, kTitle };
/// Python's str.upper, lower, capitalize and title.
Text with_case(const Text& text, Case mode);
/// & < > " ' as HTML's references.
Text escaped(const Text& text);

}  // namespace krafla::jinja
