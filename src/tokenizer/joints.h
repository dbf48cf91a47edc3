// Where text may be cut before merging without changing its ids: merging a long text at once is slow, be it a
// whole one (SentencePiece has no regex that cuts words) or a run of Chinese. No merge ever crosses between
// two characters that are not the last of some rule's left token and the first of its right one. Tokens of a
// byte-level vocabulary may begin or end within a character; such an end stands for all characters that have
// its byte there.
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
class Joints {
 public:
  /// The rules of `mlt`, with tokens' bytes as `vocabulary` has them.
  Joints(const Mlt& mlt, const Vocabulary& vocabulary);

  /// The length of the shortest piece at the start of `text` (not empty) that no merge joins with the rest.
  /// Any bytes are legal.
  std::size_t next(std::string_view text) const;
  /// Whether tokens are made of whole characters.
  bool whole_characters() const { return whole_characters_; }

 private:
  bool joined(std::string_view left, Utf8Char l, std::string_view right, Utf8Char r) const;
  bool has(char32_t left, char32_t right) const {
    const std::size_t bit = bit_of(left, right);
    return (wide_[bit / 64] >> (bit % 64) & 1) != 0;
  }
  static std::size_t bit_of(char32_t left, char32_t right);

  std::array<bool, std::size_t{0x80} * 0x80> ascii_{};
  bool whole_characters_ = true;
  std::array<bool, 256> parts_left_{},
      parts_right_{};  // by the last byte of a left token, the first byte of a right one
  std::vector<std::uint64_t>
      wide_;  // a bit for each hash of a pair: two that share one cost a cut, no wrong id
};

}  // namespace krafla
