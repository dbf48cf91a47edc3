// Byte-pair encoding (BPE): merges the symbols of one piece by rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/aligned.h"
#include "formats/mlt.h"

namespace krafla {

/// The merge rules by pair of symbols. Immutable and thread-safe.
class MergeTable {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Rule {
    std::uint32_t rank = kNone;  // kNone: the pair has no rule. Lower ranks are applied first
    std::int32_t merged = -1;
  };

  /// Rules whose merged token is marked in `never` (by id) are left out. If a pair has two rules, the later
  /// one is used, as in the tokenizers library.
  MergeTable(std::span<const MltMerge> merges, const std::vector<bool>& never);

  /// The number of rules given to the constructor. Every rank is below it.
  std::size_t size() const { return size_; }
  Rule find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t h = hash(left, right);
    if (const std::uint64_t bit = h >> bit_shift_; (filter_[bit / 64] >> (bit % 64) & 1) == 0) return {};
    for (std::size_t at = h >> shift_;; at = (at + 1) & mask_) {
      const Entry& e = entries_[at];
      if (e.left == left && e.right == right) return {e.rank, e.merged};
      if (e.left < 0) return {};
    }
  }

 private:
  struct Entry {
    std::int32_t left = -1, right = -1;
    std::uint32_t rank = kNone;
    std::int32_t merged = -1;
  };
  static std::uint64_t hash(std::int32_t left, std::int32_t right) {
    const std::uint64_t key =
        std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
    return (key ^ key >> 29) * 0x9E3779B97F4A7C15u;
  }
  AlignedVector<Entry> entries_;
  // A bit for each hash. It is small enough for the cache and rejects most pairs without a rule.
  std::vector<std::uint64_t> filter_;
  std::size_t size_, mask_ = 0;
  int shift_ = 0, bit_shift_ = 0;
};

/// The last merge that formed a token.
struct LastMerge {
  std::int32_t left = -1, right = -1;  // -1: there was no merge
  std::uint32_t rank = 0;
  bool rising = true;  // the ranks of all merges came in ascending order
};

/// Merges `symbols` (token ids, fewer than 2^32) in place until no rule applies. The lowest rank comes first;
/// among equal ranks, the leftmost pair. Returns how many symbols remain; they are at the front. Takes
/// O(n log n) time.
std::size_t merge_symbols(const MergeTable& table, std::span<std::int32_t> symbols);

/// merge_symbols() uses one of two algorithms with the same result. The scan takes O(n^2) time, is faster for
/// short pieces and accepts at most kShortPiece symbols. The heap takes O(n log n) time.
inline constexpr std::size_t kShortPiece = 32;
/// If `last` is not null, it receives the last merge.
std::size_t merge_by_scan(const MergeTable& table, std::span<std::int32_t> symbols,
                          LastMerge* last = nullptr);
std::size_t merge_by_heap(const MergeTable& table, std::span<std::int32_t> symbols);

}  // namespace krafla
