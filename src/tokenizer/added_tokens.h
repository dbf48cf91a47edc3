// Finds the added tokens in raw text, before any other step of encoding. The leftmost match wins, and of the
// matches that begin at the same place the longest. The time grows with the text alone, whatever the tokens
// are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text_range.h"
#include "formats/mlt.h"
#include "tokenizer/text_automaton.h"

namespace krafla {

/// Searches a text for many patterns at once, from its end to its beginning. In this direction the match at
/// each place is known as soon as the place is reached, so no byte is read twice.
class BackwardMatcher {
 public:
  BackwardMatcher() : BackwardMatcher(std::vector<TextAutomaton::Pattern>()) {}
  /// Keeps nothing of the bytes. The patterns are distinct and not empty.
  explicit BackwardMatcher(const std::vector<TextAutomaton::Pattern>& patterns);

  /// Calls found(at, length, id) for each place of text[begin, end) where a pattern begins that ends by
  /// `end`, with the longest such pattern. The last place comes first.
  template <class Found>
  void walk(std::string_view text, std::size_t begin, std::size_t end, Found&& found) const {
    std::uint32_t state = TextAutomaton::kStart;
    for (std::size_t at = end; at > begin;) {
      if (state == TextAutomaton::kStart) at = last_end(text, begin, at);
      if (at == begin) return;
      state = reversed_.next(state, static_cast<std::uint8_t>(text[--at]));
      if (const TextAutomaton::Match match = reversed_.match(state); match.length > 0)
        found(at, match.length, match.id);
    }
  }

 private:
  std::size_t last_end(std::string_view text, std::size_t begin, std::size_t end) const;

  TextAutomaton reversed_;       // of the patterns read backwards
  std::vector<bool> last_byte_;  // by byte: whether a pattern ends with it
  int only_last_byte_ = -1;      // the byte that all patterns end with, if there is one: memrchr finds it
};

/// Immutable and thread-safe.
class AddedTokens {
 public:
  /// Keeps nothing of `mlt`'s bytes. `control`, by id, says which tokens are control tokens.
  AddedTokens(const Mlt& mlt, const std::vector<bool>& control);

  struct Match {
    std::uint32_t at, length;
    std::int32_t id;
  };
  /// The matches in `text` (of less than 4 GiB), in order. Control tokens match only if `controls` is set,
  /// and never where they overlap one of the ranges of `literal`, which are ascending and disjoint.
  std::vector<Match> find_all(std::string_view text, bool controls, std::span<const TextRange> literal) const;
  /// The added token with exactly these bytes, or -1.
  std::int32_t find(std::string_view bytes) const;

 private:
  struct Token {
    std::string bytes;
    std::int32_t id;
  };
  std::vector<Token> tokens_;  // sorted by bytes
  BackwardMatcher control_, others_;
};

}  // namespace krafla
