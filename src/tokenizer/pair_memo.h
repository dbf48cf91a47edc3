// Remembers a yes or no for pairs of tokens. All threads share it without locks: one atomic word holds both a
// pair and its answer, so a thread never reads an answer that belongs to another pair. Pairs may overwrite
// each other; an overwritten answer is computed again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace krafla {

class PairMemo {
 public:
  PairMemo() : words_(std::make_unique<std::atomic<std::uint64_t>[]>(std::size_t{1} << kBits)) {}

  /// The stored answer, or nothing. Ids are not negative.
  std::optional<bool> find(std::int32_t left, std::int32_t right) const {
    const std::uint64_t pair = pack(left, right), word = words_[slot(pair)].load(std::memory_order_relaxed);
    return (word | 1) == (pair | 1) ? std::optional((word & 1) != 0) : std::nullopt;
  }
  void store(std::int32_t left, std::int32_t right, bool answer) const {
    const std::uint64_t pair = pack(left, right);
    words_[slot(pair)].store(pair | (answer ? 1 : 0), std::memory_order_relaxed);
  }

 private:
  static constexpr int kBits = 13;  // 64 KB
  /// Never 0, because 0 is the empty word. The lowest bit is reserved for the answer.
  static std::uint64_t pack(std::int32_t left, std::int32_t right) {
    return (static_cast<std::uint64_t>(left) + 1) << 32 | static_cast<std::uint64_t>(right) << 1;
  }
  static std::size_t slot(std::uint64_t pair) {
    return static_cast<std::size_t>((pair * 0x9E3779B97F4A7C15u) >> (64 - kBits));
  }

  std::unique_ptr<std::atomic<std::uint64_t>[]> words_;
};

}  // namespace krafla
