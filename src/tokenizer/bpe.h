// Byte-pair merging: the symbols of one piece, merged by rank.
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
  struct Found {
    std::uint32_t rank = kNone;  // kNone: the pair has no rule
    std::int32_t merged = -1;
  };

  /// Rules whose merged token is marked in `never` (by id) are left out. Of two rules for a pair the later
  /// one counts, as in the tokenizers library.
  MergeTable(std::span<const MltMerge> merges, const std::vector<bool>& never);

  /// How many rules there were: ranks are below it.
  std::size_t size() const { return size_; }
  Found find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t h = hash(left, right);
    if (const std::uint64_t bit = h >> bit_shift_; (there_[bit / 64] >> (bit % 64) & 1) == 0) return {};
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
  std::vector<std::uint64_t>
      there_;  // a bit for each hash: most pairs without a rule are known by it, and it stays in the cache
  std::size_t size_, mask_ = 0;
  int shift_ = 0, bit_shift_ = 0;
};

/// How one token came about.
struct LastMerge {
  std::int32_t left = -1, right = -1;  // -1: nothing was merged
  std::uint32_t rank = 0;
  bool rising = true;  // no merge had a lower rank than one before it
};

/// Merges `symbols` (token ids) in place until no rule applies: the lowest rank first, the leftmost among
/// equal ranks. Returns how many symbols are left, at the front. Time O(n log n); short inputs take the scan
/// below. Fewer than 2^32 symbols.
std::size_t merge_symbols(const MergeTable& table, std::span<std::int32_t> symbols);

/// The two ways, with the same result: O(n^2) by scanning, best up to kShortPiece symbols, its limit; O(n log
/// n) with a heap.
inline constexpr std::size_t kShortPiece = 32;
/// `last`, if not null, gets the last merge.
std::size_t merge_by_scan(const MergeTable& table, std::span<std::int32_t> symbols,
                          LastMerge* last = nullptr);
std::size_t merge_by_heap(const MergeTable& table, std::span<std::int32_t> symbols);

}  // namespace krafla
