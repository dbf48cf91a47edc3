// Finds the places where text can be cut before merging without changing its ids. Merging a long stretch at
// once is slow, and long stretches are common: SentencePiece has no regex that splits words, and no regex
// splits a run of Chinese.
//
// A merge can join the characters a and b only if some rule's left token ends with a and its right token
// begins with b. Between all other characters a cut is safe. A token of a byte-level vocabulary may begin or
// end within a character; then the rule counts for every character with that byte in that place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/mlt.h"
#include "tokenizer/unicode.h"
#include "tokenizer/vocabulary.h"

namespace krafla {

/// Immutable and thread-safe.
class MergeBoundaries {
 public:
  /// `mlt` gives the merge rules, `vocabulary` the bytes of the tokens.
  MergeBoundaries(const Mlt& mlt, const Vocabulary& vocabulary);

  /// The length of the shortest prefix of `text` that ends at a safe cut. `text` is not empty; any bytes are
  /// legal.
  std::size_t next(std::string_view text) const;
  /// Whether the tokens of every merge rule begin and end at characters' boundaries.
  bool whole_characters() const { return whole_characters_; }

 private:
  bool may_merge(std::string_view left, Utf8Char l, std::string_view right, Utf8Char r) const;
  bool has(char32_t left, char32_t right) const {
    const std::size_t bit = bit_of(left, right);
    return (pairs_[bit / 64] >> (bit % 64) & 1) != 0;
  }
  static std::size_t bit_of(char32_t left, char32_t right);

  std::array<bool, std::size_t{0x80} * 0x80> ascii_{};
  bool whole_characters_ = true;
  // By the last byte of a left token that holds only the end of a character, and by the first byte of a right
  // token that holds only the beginning of one.
  std::array<bool, 256> partial_left_{}, partial_right_{};
  // A bit for each hash of a pair that a rule joins. If two pairs share a bit, a cut may be missed, but no id
  // changes.
  std::vector<std::uint64_t> pairs_;
};

}  // namespace krafla
