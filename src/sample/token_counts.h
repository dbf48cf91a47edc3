// How often each token has occurred so far: what the penalties look at, kept up to date token by token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace krafla {

class TokenCounts {
 public:
  /// Counts ids below `vocab` among the last `window` tokens; window -1: all.
  TokenCounts(std::size_t vocab, std::int32_t window) : window_(window), counts_(window == 0 ? 0 : vocab) {}

  /// The next token of the text. Ids that are not below the vocabulary take a place in the window, but are
  /// not counted.
  void add(std::int32_t id);
  void add(std::span<const std::int32_t> ids) {
    for (const std::int32_t id : ids) add(id);
  }
  /// The ids with a count above 0, in no order.
  std::span<const std::int32_t> distinct() const { return distinct_; }
  std::uint32_t count(std::int32_t id) const { return counts_[static_cast<std::size_t>(id)]; }

 private:
  bool is_counted(std::int32_t id) const { return id >= 0 && static_cast<std::size_t>(id) < counts_.size(); }
  void remove(std::int32_t id);

  std::int32_t window_;
  std::vector<std::uint32_t> counts_;  // by id
  std::vector<std::int32_t> distinct_;
  std::deque<std::int32_t> recent_;  // the tokens of a window that is not -1
};

}  // namespace krafla
