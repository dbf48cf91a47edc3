#include "tokenizer/pretokenize.h"

#include <bit>
#include <cstring>

#include "tokenizer/unicode.h"

namespace krafla {
namespace {

/// How many ASCII letters `text`, of at least 8 bytes, begins with; at most 8. Tests 8 bytes in one word.
std::size_t ascii_letters(const char* text) {
  constexpr std::uint64_t kEach = 0x0101010101010101u, kHigh = 0x80 * kEach;
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, text, sizeof bytes);
  const std::uint64_t low = (bytes | 0x20 * kEach) & ~kHigh;
  const std::uint64_t letters = (low + (0x80 - 'a') * kEach) & ~(low + (0x7F - 'z') * kEach) & ~bytes & kHigh;
  return static_cast<std::size_t>(std::countr_zero(letters ^ kHigh)) / 8;
}

}  // namespace

Pretokenizer::Pretokenizer(const PretokenizeRules& rules) : rules_(rules) {
  // The Llama 3 regex allows one optional character before the letters, which may be a mark. With
  // marks_are_letters the mark is a letter itself, so the match is the same.
  const Class mark = rules.marks_are_letters ? kLetter : kOther;
  by_class_ = {kOther, kLetter, kNumber, mark, kSpace, rules.split_digits ? kNumber : kOther};
  for (std::size_t c = 0; c < ascii_.size(); ++c)
    ascii_[c] = by_class_[static_cast<std::size_t>(code_point_class(static_cast<char32_t>(c)))];
  if (!rules.gpt2_regex) ascii_['\n'] = ascii_['\r'] = kNewline;
}

Pretokenizer::Char Pretokenizer::wide(std::string_view text, std::size_t at) const {
  const Utf8Char c = read_utf8(text.substr(at));
  if (!c.valid) return {kOther, 1};
  return {by_class_[static_cast<std::size_t>(code_point_class(c.code))], c.length};
}

std::size_t Pretokenizer::skip(std::string_view text, std::size_t at, Class cls) const {
  while (cls == kLetter && text.size() - at >= 8) {
    if (is_ideograph(text.substr(at))) {
      at += 3;
    } else if (const std::size_t n = ascii_letters(text.data() + at); n > 0) {
      at += n;
    } else {
      const Char c = char_at(text, at);
      if (c.cls != cls) return at;
      at += c.length;
    }
  }
  while (at < text.size()) {
    const Char c = char_at(text, at);
    if (c.cls != cls) break;
    at += c.length;
  }
  return at;
}

/// The length of 's 't 're 've 'm 'll 'd at the start, or 0.
std::size_t Pretokenizer::contraction(std::string_view text) const {
  if (text[0] != '\'' || text.size() < 2) return 0;
  const auto letter = [&](std::size_t i) -> char {
    if (i >= text.size()) return 0;
    const char c = text[i];
    return !rules_.gpt2_regex && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd': return 2;
    case 'r':
    case 'v': return letter(2) == 'e' ? 3 : 0;
    case 'l': return letter(2) == 'l' ? 3 : 0;
    default: break;
  }
  // Ignoring case, U+017F (long s) equals s.
  return !rules_.gpt2_regex && text.substr(1).starts_with("\xC5\xBF") ? 3 : 0;
}

std::size_t Pretokenizer::next(std::string_view text) const {
  if (const std::size_t n = contraction(text)) return n;
  return rules_.gpt2_regex ? next_gpt2(text) : next_llama3(text);
}

std::size_t Pretokenizer::next_gpt2(std::string_view text) const {
  Char c = char_at(text, 0);
  std::size_t at = 0;
  if (text[0] == ' ' && text.size() > 1) {
    const Char after = char_at(text, 1);
    if (after.cls != kSpace && !(after.cls == kNumber && rules_.split_digits)) {
      c = after;
      at = 1;
    }
  }
  if (c.cls == kSpace) return whitespace(text);
  if (c.cls == kNumber && rules_.split_digits) return c.length;
  return skip(text, at + c.length, c.cls);
}

std::size_t Pretokenizer::next_llama3(std::string_view text) const {
  const Char c = char_at(text, 0);
  if (c.cls == kLetter) return skip(text, c.length, kLetter);
  if (c.cls == kNumber) {
    std::size_t at = c.length;
    if (rules_.single_digits || rules_.split_digits) return at;
    for (int i = 1; i < 3 && is(text, at, kNumber); ++i) at += char_at(text, at).length;
    return at;
  }
  if (c.cls != kNewline && is(text, c.length, kLetter)) return skip(text, c.length, kLetter);
  if (c.cls == kOther || (text[0] == ' ' && is(text, 1, kOther)))
    return skip(text, skip(text, c.length, kOther), kNewline);
  return whitespace(text);
}

/// Matches \s*[\r\n]+ (Llama 3 only), \s+(?!\S) or \s+ on a text that begins with white space.
std::size_t Pretokenizer::whitespace(std::string_view text) const {
  std::size_t at = 0, last = 0, after_newline = 0;
  bool at_end = true;
  while (at < text.size()) {
    const Char c = char_at(text, at);
    if (c.cls != kSpace && c.cls != kNewline) {
      at_end = c.cls == kNumber && rules_.split_digits;  // split_digits ends the matched text before a digit
      break;
    }
    last = at;
    at += c.length;
    if (c.cls == kNewline) after_newline = at;
  }
  if (after_newline > 0) return after_newline;
  return at_end || last == 0 ? at : last;  // the last space belongs to the next piece
}

}  // namespace krafla
