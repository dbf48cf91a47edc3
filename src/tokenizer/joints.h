// Where text may be cut before merging without changing its ids: SentencePiece has no regex that cuts words, and merging a whole text
// at once is slow. No merge ever crosses between two characters that are not the last of some rule's left token and the first
// of its right one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/mlt.h"
#include "tokenizer/vocabulary.h"

namespace krafla {

/// Immutable and thread-safe.
class Joints {
 public:
  /// The rules of `mlt`, with tokens' bytes as `vocabulary` has them.
  Joints(const Mlt& mlt, const Vocabulary& vocabulary);

  /// The length of the shortest piece at the start of `text` (not empty) that no merge joins with the rest. Any bytes are legal.
  std::size_t next(std::string_view text) const;

 private:
  bool joined(char32_t left, char32_t right) const {
    if ((left | right) < 0x80) return ascii_[left * 0x80 + right];
    const std::size_t bit = bit_of(left, right);
    return (wide_[bit / 64] >> (bit % 64) & 1) != 0;
  }
  static std::size_t bit_of(char32_t left, char32_t right);

  std::array<bool, std::size_t{0x80} * 0x80> ascii_{};
  bool cuts_ = true;                 // false: a rule may apply anywhere
  std::vector<std::uint64_t> wide_;  // a bit for each hash of a pair: two that share one cost a cut, no wrong id
};

}  // namespace krafla
