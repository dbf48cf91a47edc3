#include "jinja/text.h"

#include <algorithm>

#include "base/error.h"

namespace krafla::jinja {

void check_text(std::uint64_t bytes) {
  if (bytes > kMaxText) fail(ML_E_FORMAT, "a text of {} bytes; at most {}", bytes, kMaxText);
}

Text::Text(std::string text, bool is_literal) : bytes(std::move(text)) {
  if (is_literal) mark(0, bytes.size());
}

void Text::mark(std::size_t first, std::size_t last) {
  if (first == last) return;
  if (!literal.empty() && literal.back().second == first)
    literal.back().second = last;
  else
    literal.emplace_back(first, last);
}

void Text::append(std::string_view text, bool is_literal) {
  const std::size_t at = bytes.size();
  bytes += text;
  if (is_literal) mark(at, bytes.size());
}

void Text::append(const Text& other, std::size_t first, std::size_t last) {
  const std::size_t at = bytes.size();
  bytes.append(other.bytes, first, last - first);
  auto range = std::upper_bound(other.literal.begin(), other.literal.end(), first,
                                [](std::size_t offset, const TextRange& r) { return offset < r.second; });
  for (; range != other.literal.end() && range->first < last; ++range)
    mark(at + std::max(range->first, first) - first, at + std::min(range->second, last) - first);
}

void Text::append_changed(std::string_view text, const Text& other, std::size_t first, std::size_t last) {
  append(text, other.touches_literal(first, last));
}

Text Text::slice(std::size_t first, std::size_t last) const {
  Text result;
  result.markup = markup;
  result.append(*this, first, last);
  return result;
}

bool Text::touches_literal(std::size_t first, std::size_t last) const {
  const auto range =
      std::upper_bound(literal.begin(), literal.end(), first,
                       [](std::size_t offset, const TextRange& r) { return offset < r.second; });
  return range != literal.end() && range->first < last;
}

Character character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint32_t lead = byte(at);
  const std::size_t size = lead < 0x80   ? 1
                           : lead < 0xC2 ? 0
                           : lead < 0xE0 ? 2
                           : lead < 0xF0 ? 3
                           : lead < 0xF5 ? 4
                                         : 0;
  if (size < 2 || at + size > text.size()) return {lead, 1};
  std::uint32_t code = lead & (0x7Fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return {lead, 1};
    code = code << 6 | (byte(at + i) & 0x3F);
  }
  const bool overlong = (size == 3 && code < 0x800) || (size == 4 && code < 0x10000);
  if (overlong || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {lead, 1};
  return {code, size};
}

std::vector<std::size_t> character_offsets(std::string_view text) {
  std::vector<std::size_t> offsets;
  offsets.reserve(text.size() + 1);
  for (std::size_t at = 0; at < text.size(); at += character_at(text, at).size) offsets.push_back(at);
  offsets.push_back(text.size());
  return offsets;
}

std::size_t count_characters(std::string_view text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); at += character_at(text, at).size) ++count;
  return count;
}

std::string utf8(std::uint32_t code) {
  std::string text;
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6);
    add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3F));
    add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3F));
    add(0x80 | (code >> 6 & 0x3F));
    add(0x80 | (code & 0x3F));
  }
  return text;
}

bool is_space(std::uint32_t code) {
  return (code >= 9 && code <= 13) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

std::uint32_t to_upper(std::uint32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
  if ((c >= 0xE0 && c <= 0xFE && c != 0xF7) || (c >= 0x3B1 && c <= 0x3C9 && c != 0x3C2) ||
      (c >= 0x430 && c <= 0x44F))
    return c - 32;
  if (c >= 0x450 && c <= 0x45F) return c - 80;
  if (c == 0xFF) return 0x178;
  const bool pairs =
      (c >= 0x100 && c <= 0x137 && c != 0x131) || (c >= 0x14A && c <= 0x177) || (c >= 0x460 && c <= 0x481);
  if (pairs) return c & ~1u;
  if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17E)) return c % 2 == 0 ? c - 1 : c;
  return c;
}

std::uint32_t to_lower(std::uint32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  if ((c >= 0xC0 && c <= 0xDE && c != 0xD7) || (c >= 0x391 && c <= 0x3A9 && c != 0x3A2) ||
      (c >= 0x410 && c <= 0x42F))
    return c + 32;
  if (c >= 0x400 && c <= 0x40F) return c + 80;
  if (c == 0x178) return 0xFF;
  const bool pairs =
      (c >= 0x100 && c <= 0x137 && c != 0x130) || (c >= 0x14A && c <= 0x177) || (c >= 0x460 && c <= 0x481);
  if (pairs) return c | 1u;
  if ((c >= 0x139 && c <= 0x148) || (c >= 0x179 && c <= 0x17E)) return c % 2 == 1 ? c + 1 : c;
  return c;
}

TextRange stripped(std::string_view text, bool left, bool right, const std::string_view* characters) {
  std::vector<std::string_view> set;
  for (std::size_t i = 0, n; characters != nullptr && i < characters->size(); i += n) {
    n = character_at(*characters, i).size;
    set.push_back(characters->substr(i, n));
  }
  std::sort(set.begin(), set.end());
  const auto goes = [&](std::size_t at, std::size_t size) {
    if (characters == nullptr)
      return is_space(character_at(text, at).code) &&
             (size > 1 || static_cast<std::uint8_t>(text[at]) < 0x80);
    return std::binary_search(set.begin(), set.end(), text.substr(at, size));
  };
  std::size_t first = 0, last = text.size();
  while (left && first < last && goes(first, character_at(text, first).size))
    first += character_at(text, first).size;
  while (right && last > first) {
    std::size_t at = last - 1;
    while (at > first && last - at < 4 && (static_cast<std::uint8_t>(text[at]) & 0xC0) == 0x80) --at;
    if (at + character_at(text, at).size != last) at = last - 1;
    if (!goes(at, last - at)) break;
    last = at;
  }
  return {first, last};
}

Text replaced(const Text& text, std::string_view from, const Text& to, std::int64_t count) {
  Text result;
  const std::string& bytes = text.bytes;
  std::size_t at = 0;
  while (count != 0) {
    // An empty `from` stands before every character and at the end.
    const std::size_t found = bytes.find(from, at);
    if (found == std::string::npos) break;
    result.append(text, at, found);
    result.append(to);
    check_text(result.bytes.size());
    at = found + from.size();
    --count;
    if (from.empty()) {
      if (at == bytes.size()) return result;
      const std::size_t size = character_at(bytes, at).size;
      result.append(text, at, at + size);
      at += size;
    }
  }
  result.append(text, at, bytes.size());
  return result;
}

Text with_case(const Text& text, Case mode) {
  Text result;
  bool inside = false;  // of a word, or anywhere after the first character
  for (std::size_t at = 0; at < text.bytes.size();) {
    const Character c = character_at(text.bytes, at);
    const bool valid = c.size > 1 || c.code < 0x80;
    const bool upper = mode == Case::kUpper || (mode != Case::kLower && !inside);
    const std::uint32_t changed = !valid ? c.code : upper ? to_upper(c.code) : to_lower(c.code);
    const std::string_view same(text.bytes.data() + at, c.size);
    // Python makes two letters of the German sharp s.
    const std::string letters =
        valid && upper && c.code == 0xDF ? (mode == Case::kUpper ? "SS" : "Ss") : utf8(changed);
    if (valid)
      result.append_changed(letters, text, at, at + c.size);
    else
      result.append_changed(same, text, at, at + c.size);
    inside = mode == Case::kCapitalize || to_upper(c.code) != to_lower(c.code);
    at += c.size;
  }
  return result;
}

Text escaped(const Text& text) {
  Text result;
  for (std::size_t at = 0; at < text.bytes.size(); ++at) {
    const char c = text.bytes[at];
    const char* name = c == '&'    ? "&amp;"
                       : c == '<'  ? "&lt;"
                       : c == '>'  ? "&gt;"
                       : c == '"'  ? "&#34;"
                       : c == '\'' ? "&#39;"
                                   : nullptr;
    if (name == nullptr)
      result.append(text, at, at + 1);
    else
      result.append_changed(name, text, at, at + 1);
  }
  result.markup = true;
  check_text(result.bytes.size());
  return result;
}

}  // namespace krafla::jinja
