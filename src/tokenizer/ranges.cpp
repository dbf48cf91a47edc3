// Finds where in the text each id comes from, by aligning the bytes of the tokens with those of the text.
#include <algorithm>

#include "tokenizer/normalize.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

namespace krafla {
namespace {

/// The bytes that were encoded, and for each of them the range of the text it comes from.
struct Source {
  std::string bytes;
  std::vector<TextRange> ranges;

  void add(std::string_view piece, TextRange range) {
    bytes += piece;
    ranges.insert(ranges.end(), piece.size(), range);
  }
  /// Adds an unchanged part of the text, in which each byte comes from its whole character.
  void add_characters(std::string_view text, std::size_t at) {
    while (!text.empty()) {
      const Utf8Char c = read_utf8(text);
      const std::size_t n = c.valid ? c.length : 1;
      add(text.substr(0, n), {at, at + n});
      text.remove_prefix(n);
      at += n;
    }
  }
};

Source spaced(std::string_view text, bool prefix) {
  Source source;
  if (prefix) source.add(" ", {0, 0});
  std::size_t done = 0;
  for (std::size_t at; (at = text.find(kMltSpace, done)) != std::string_view::npos;
       done = at + kMltSpace.size()) {
    source.add_characters(text.substr(done, at - done), done);
    source.add(" ", {at, at + kMltSpace.size()});
  }
  source.add_characters(text.substr(done), done);
  return source;
}

Source composed(std::string_view text) {
  Source source;
  std::string buffer;
  std::vector<NormalizedStretch> stretches;
  const std::string_view result = to_nfc(text, buffer, &stretches);
  std::size_t done = 0;
  for (const NormalizedStretch& s : stretches) {
    source.add_characters(text.substr(done, s.begin - done), done);
    const std::string_view before = text.substr(s.begin, s.end - s.begin),
                           after = result.substr(s.new_begin, s.new_end - s.new_begin);
    if (before == after)
      source.add_characters(before, s.begin);
    else
      source.add(after, {s.begin, s.end});
    done = s.end;
  }
  source.add_characters(text.substr(done), done);
  return source;
}

}  // namespace

/// Appends the ranges of `ids`, the encoding of `text`, which begins at byte `at` of the whole text. Bytes
/// that the vocabulary lacks are in no token; they are skipped.
void Tokenizer::find_ranges(std::string_view text, std::size_t at, std::span<const std::int32_t> ids,
                            std::vector<TextRange>& ranges) const {
  Source source;
  if (sentencepiece_)
    source = spaced(text, !text.empty() && puts_space_before(text, at == 0));
  else if ((flags_ & kMltNfc) != 0)
    source = composed(text);
  else
    source.add_characters(text, 0);
  std::size_t next = 0;
  for (const std::int32_t id : ids) {
    TextRange range = {SIZE_MAX, 0};
    for (const char byte : vocabulary_.bytes(id)) {
      while (next < source.bytes.size() && source.bytes[next] != byte) ++next;
      if (next == source.bytes.size()) break;
      range.first = std::min(range.first, source.ranges[next].first);
      range.second = std::max(range.second, source.ranges[next].second);
      ++next;
    }
    if (range.first > range.second) range = {text.size(), text.size()};
    ranges.emplace_back(at + range.first, at + range.second);
  }
}

}  // namespace krafla
