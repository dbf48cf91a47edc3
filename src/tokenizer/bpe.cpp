#include "tokenizer/bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <queue>
#include <utility>

namespace krafla {

MergeTable::MergeTable(std::span<const MltMerge> merges, const std::vector<bool>& never)
    : size_(merges.size()) {
  // At most two thirds full, so that probes are short.
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(merges.size() * 3 / 2, 64));
  mask_ = size - 1;
  shift_ = 64 - std::countr_zero(size);
  entries_.resize(size);
  const std::size_t bits = size * 4;
  bit_shift_ = 64 - std::countr_zero(bits);
  filter_.resize(bits / 64);
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const MltMerge& m = merges[rank];
    const auto hash_of = [](const MltMerge& merge) {
      return hash(static_cast<std::int32_t>(merge.left), static_cast<std::int32_t>(merge.right));
    };
    if (const std::size_t later = rank + 16; later < merges.size())
      __builtin_prefetch(&entries_[hash_of(merges[later]) >> shift_]);
    if (never[m.merged]) continue;
    const auto left = static_cast<std::int32_t>(m.left), right = static_cast<std::int32_t>(m.right);
    const std::uint64_t h = hash_of(m), bit = h >> bit_shift_;
    filter_[bit / 64] |= std::uint64_t{1} << (bit % 64);
    std::size_t at = h >> shift_;
    while (entries_[at].left >= 0 && (entries_[at].left != left || entries_[at].right != right))
      at = (at + 1) & mask_;
    entries_[at] = {left, right, static_cast<std::uint32_t>(rank), static_cast<std::int32_t>(m.merged)};
  }
}

std::size_t merge_symbols(const MergeTable& table, std::span<std::int32_t> symbols) {
  return symbols.size() <= kShortPiece ? merge_by_scan(table, symbols) : merge_by_heap(table, symbols);
}

std::size_t merge_by_scan(const MergeTable& table, std::span<std::int32_t> symbols, LastMerge* last) {
  // rules[i] is the rule of symbol i and the next remaining symbol. A symbol that was merged into the one
  // before it has none.
  std::array<MergeTable::Rule, kShortPiece> rules;
  std::array<std::uint8_t, kShortPiece> before, after;
  const std::size_t n = symbols.size();
  for (std::size_t i = 0; i < n; ++i) {
    before[i] = static_cast<std::uint8_t>(i - 1);  // before the first: 255
    after[i] = static_cast<std::uint8_t>(i + 1);   // after the last: n
    rules[i] = i + 1 < n ? table.find(symbols[i], symbols[i + 1]) : MergeTable::Rule{};
  }
  for (;;) {
    std::size_t best = 0;
    std::uint32_t rank = MergeTable::kNone;
    for (std::size_t i = 0; i < n; ++i) {
      best = rules[i].rank < rank ? i : best;
      rank = std::min(rules[i].rank, rank);
    }
    if (rank == MergeTable::kNone) break;
    const std::size_t right = after[best], left = before[best];
    if (last != nullptr) *last = {symbols[best], symbols[right], rank, last->rising && rank >= last->rank};
    symbols[best] = rules[best].merged;
    symbols[right] = -1;  // gone
    rules[right] = {};
    after[best] = after[right];
    if (after[best] < n) before[after[best]] = static_cast<std::uint8_t>(best);
    rules[best] = after[best] < n ? table.find(symbols[best], symbols[after[best]]) : MergeTable::Rule{};
    if (left < n) rules[left] = table.find(symbols[left], symbols[best]);
  }
  return static_cast<std::size_t>(std::remove(symbols.begin(), symbols.end(), -1) - symbols.begin());
}

std::size_t merge_by_heap(const MergeTable& table, std::span<std::int32_t> symbols) {
  struct Link {
    std::uint32_t before, after;
  };
  const auto n = static_cast<std::uint32_t>(symbols.size());
  std::vector<Link> links(n);
  // A candidate is rank << 32 | position of its left symbol: the smallest is the next merge. A candidate is
  // stale if its symbols have changed since. Looking up its pair again reveals that, so a candidate needs no
  // copy of its symbols, and the heap fits in the cache.
  std::vector<std::uint64_t> candidates;
  candidates.reserve(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    links[i] = {i - 1, i + 1};  // before the first: UINT32_MAX; after the last: n
    const std::uint32_t rank = i + 1 < n ? table.find(symbols[i], symbols[i + 1]).rank : MergeTable::kNone;
    if (rank != MergeTable::kNone) candidates.push_back(std::uint64_t{rank} << 32 | i);
  }
  std::priority_queue heap(std::greater<std::uint64_t>(), std::move(candidates));
  const auto add = [&](std::uint32_t at) {
    if (at >= n || links[at].after >= n) return;
    const std::uint32_t rank = table.find(symbols[at], symbols[links[at].after]).rank;
    if (rank != MergeTable::kNone) heap.push(std::uint64_t{rank} << 32 | at);
  };
  while (!heap.empty()) {
    const auto rank = static_cast<std::uint32_t>(heap.top() >> 32),
               at = static_cast<std::uint32_t>(heap.top());
    heap.pop();
    const std::uint32_t right = links[at].after;
    if (symbols[at] < 0 || right >= n) continue;
    const MergeTable::Rule rule = table.find(symbols[at], symbols[right]);
    if (rule.rank != rank) continue;
    symbols[at] = rule.merged;
    symbols[right] = -1;  // gone
    links[at].after = links[right].after;
    if (links[at].after < n) links[links[at].after].before = at;
    add(links[at].before);
    add(at);
  }
  return static_cast<std::size_t>(std::remove(symbols.begin(), symbols.end(), -1) - symbols.begin());
}

}  // namespace krafla
