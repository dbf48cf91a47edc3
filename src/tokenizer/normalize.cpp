#include "tokenizer/normalize.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <tuple>
#include <vector>

#include "tokenizer/unicode.h"

namespace krafla {
namespace {

struct Decomposition {
  char32_t code, first, second;
};
struct Composition {
  char32_t first, second, code;
};

#include "tokenizer/nfc_tables.inc"

constexpr std::size_t kBlockSize = 128;
constexpr std::uint8_t kComposes = 254;  // the lowest value that is not a combining class
constexpr char32_t kFirstMark = 0x300;   // all code points below are inert
constexpr char32_t kRawByte = 0x110000;  // + a byte that is not UTF-8
constexpr char32_t kNothing = 0xFFFFFFFF;

/// 0 for an inert character. Nothing before it composes or changes places with it, and by itself it is in
/// NFC.
std::uint8_t kind_of(char32_t code) {
  const std::size_t block = code / kBlockSize;
  return code < kFirstMark || block >= std::size(kNfcIndex)
             ? 0
             : kNfcBlocks[kNfcIndex[block] * kBlockSize + code % kBlockSize];
}

std::uint8_t combining_class(char32_t code) {
  const std::uint8_t kind = kind_of(code);
  return kind < kComposes ? kind : 0;
}

// Hangul syllables are computed from a lead, a vowel and an optional tail; kTail + 0 means no tail.
constexpr char32_t kSyllable = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kTail = 0x11A7;
constexpr char32_t kLeads = 19, kVowels = 21, kTails = 28, kSyllables = kLeads * kVowels * kTails;

bool within(char32_t code, char32_t first, char32_t count) { return code >= first && code - first < count; }

void decompose(char32_t code, std::vector<char32_t>& out) {
  if (within(code, kSyllable, kSyllables)) {
    const char32_t s = code - kSyllable;
    out.insert(out.end(), {kLead + s / (kVowels * kTails), kVowel + s / kTails % kVowels});
    if (s % kTails != 0) out.push_back(kTail + s % kTails);
    return;
  }
  // Only the first of the two characters may decompose further, at most twice.
  char32_t last[4];
  std::size_t n = 0;
  for (;;) {
    const auto* const it = std::lower_bound(std::begin(kDecompositions), std::end(kDecompositions), code,
                                            [](const Decomposition& d, char32_t c) { return d.code < c; });
    if (code < 0xC0 || it == std::end(kDecompositions) || it->code != code) break;
    if (it->second != 0) last[n++] = it->second;
    code = it->first;
  }
  out.push_back(code);
  while (n > 0) out.push_back(last[--n]);
}

char32_t compose(char32_t a, char32_t b) {
  if (within(a, kLead, kLeads) && within(b, kVowel, kVowels))
    return kSyllable + ((a - kLead) * kVowels + (b - kVowel)) * kTails;
  if (within(a, kSyllable, kSyllables) && (a - kSyllable) % kTails == 0 && within(b, kTail + 1, kTails - 1))
    return a + (b - kTail);
  const auto* const it =
      std::lower_bound(std::begin(kCompositions), std::end(kCompositions), std::tuple(a, b),
                       [](const Composition& c, const std::tuple<char32_t, char32_t>& pair) {
                         return std::tie(c.first, c.second) < pair;
                       });
  return it != std::end(kCompositions) && it->first == a && it->second == b ? it->code : kNothing;
}

/// Sorts the marks after each character by ascending class; marks of the same class keep their order.
void reorder(std::vector<char32_t>& codes) {
  for (auto it = codes.begin(); it != codes.end();) {
    const auto first = std::find_if(it, codes.end(), [](char32_t c) { return combining_class(c) != 0; });
    it = std::find_if(first, codes.end(), [](char32_t c) { return combining_class(c) == 0; });
    std::stable_sort(first, it,
                     [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
  }
}

/// Composes in place. Each character composes with the last character of class 0 before it, unless a
/// character of the same or a higher class is between them.
void compose(std::vector<char32_t>& codes) {
  std::size_t starter = codes.size(), kept = 0;
  int between = -1;  // the class of the last character in between; -1: there is none
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const char32_t code = codes[i];
    const int cls = combining_class(code);
    const char32_t both = starter < kept && between < cls ? compose(codes[starter], code) : kNothing;
    if (both != kNothing) {
      codes[starter] = both;
      continue;
    }
    if (cls == 0) starter = kept;
    between = cls == 0 ? -1 : cls;
    codes[kept++] = code;
  }
  codes.resize(kept);
}

void append_utf8(char32_t code, std::string& out) {
  const auto byte = [&](char32_t value) { out.push_back(static_cast<char>(value)); };
  if (code >= kRawByte) return byte(code - kRawByte);
  if (code < 0x80) return byte(code);
  if (code < 0x800) return byte(0xC0 | code >> 6), byte(0x80 | (code & 0x3F));
  if (code < 0x10000)
    return byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 0x3F)), byte(0x80 | (code & 0x3F));
  byte(0xF0 | code >> 18), byte(0x80 | (code >> 12 & 0x3F)), byte(0x80 | (code >> 6 & 0x3F)),
      byte(0x80 | (code & 0x3F));
}

struct Char {
  char32_t code;
  std::uint8_t length;
};

Char char_at(std::string_view text, std::size_t at) {
  const Utf8Char c = read_utf8(text.substr(at));
  if (!c.valid) return {kRawByte + static_cast<std::uint8_t>(text[at]), 1};
  return {c.code, c.length};
}

/// A stretch of text that may change: from an inert character (or the start of the text) to the next.
struct Stretch {
  std::size_t begin, end;
};

/// The first stretch at or after `from`, the start of a character; {size, size} if there is none.
Stretch next_stretch(std::string_view text, std::size_t from) {
  std::size_t before = from, at = from;
  while (at < text.size()) {
    std::uint64_t eight = 0;
    if (text.size() - at >= sizeof eight) {
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        before = at + 7;
        at += 8;
        continue;
      }
      if (is_ideograph(text.substr(at))) {
        before = at;
        at += 3;
        continue;
      }
    }
    const Char c = char_at(text, at);
    if (kind_of(c.code) != 0) {
      for (at += c.length; at < text.size();) {
        const Char next = char_at(text, at);
        if (kind_of(next.code) == 0) break;
        at += next.length;
      }
      return {before, at};
    }
    before = at;
    at += c.length;
  }
  return {text.size(), text.size()};
}

}  // namespace

std::string_view to_nfc(std::string_view text, std::string& buffer,
                        std::vector<NormalizedStretch>* stretches) {
  Stretch stretch = next_stretch(text, 0);
  if (stretch.begin == text.size()) return text;
  buffer.clear();
  std::vector<char32_t> codes;
  for (std::size_t done = 0;; stretch = next_stretch(text, done)) {
    buffer.append(text.substr(done, stretch.begin - done));
    if (stretch.begin == text.size()) return buffer;
    codes.clear();
    for (std::size_t at = stretch.begin; at < stretch.end;) {
      const Char c = char_at(text, at);
      decompose(c.code, codes);
      at += c.length;
    }
    reorder(codes);
    compose(codes);
    const std::size_t before = buffer.size();
    for (const char32_t code : codes) append_utf8(code, buffer);
    if (stretches != nullptr) stretches->push_back({stretch.begin, stretch.end, before, buffer.size()});
    done = stretch.end;
  }
}

}  // namespace krafla
