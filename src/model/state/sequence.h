// The state of one text: its pages of keys and values, its recurrent state and its length.
#pragma once

#include <cstddef>
#include <vector>

#include "model/state/page_pool.h"

namespace krafla {

/// A page to be filled before a forward call, by any thread: with `bytes` bytes of `from`, or with zeros if
/// that is null.
struct PageFill {
  std::byte* to = nullptr;
  Page from;
  std::size_t bytes = 0;

  void run() const;
};

/// Copies share pages until one of them writes, so a copy is a cheap checkpoint. The pool must outlive it.
///
/// A forward call goes begin(), then commit() or rollback(). All that can fail happens in begin(); it is
/// ML_E_ARG to begin twice, as two feeds of one sequence in a call would.
class Sequence {
 public:
  explicit Sequence(PagePool& pool) : pool_(&pool) {}

  PagePool& pool() const { return *pool_; }
  /// Positions whose keys and values are held.
  std::size_t length() const { return length_; }

  /// Bytes that begin(n, can_roll_back) takes from the pool.
  std::size_t bytes_for(std::size_t n, bool can_roll_back = false) const;
  /// Bytes of the pages it holds, shared ones included: what a checkpoint costs at most.
  std::size_t bytes() const;

  /// Makes pages that are this sequence's own for positions [length, length + n), and gives back those that
  /// no window will see any more. Appends to `fills` what must run before the pages are used.
  /// `can_roll_back`: the recurrent state is kept for rollback(). When it throws (ML_E_MEMORY,
  /// std::bad_alloc): run the fills, then rollback().
  void begin(std::size_t n, bool can_roll_back, std::vector<PageFill>& fills);
  /// The n positions of begin(n) are written.
  void commit(std::size_t n);
  /// In place of commit(): none of them is written. After begin(n, false) on a model with linear layers, only
  /// if the forward call has not reached its first layer.
  void rollback();

  /// Whether rewind(length) is possible: windowed layers still hold the pages before it; linear layers keep
  /// no past, so `length` must be length() or 0.
  bool can_rewind(std::size_t length) const;
  /// Forgets the positions from `length` on. ML_E_ARG where can_rewind() is false.
  void rewind(std::size_t length);
  /// A copy of the first `length` positions. ML_E_ARG where can_rewind() is false.
  Sequence fork(std::size_t length) const;

  /// The memory of page i, positions [64 i, 64 i + 64). Null only where every window has passed.
  std::byte* page(KvLayout::Group group, std::size_t i) const { return pages_[group][i].data(); }
  /// A linear-attention layer's state (recurrent.h).
  std::byte* recurrent(std::size_t layer) const {
    return pages_[KvLayout::linear].front().data() + pool_->layout().recurrent_offset(layer);
  }
  /// All page handles of a group, some of them null.
  const std::vector<Page>& pages(KvLayout::Group group) const { return pages_[group]; }
  /// Takes over pages that were filled elsewhere, for an empty sequence: a sequence of `length` positions.
  void restore(std::size_t length, std::vector<Page> (&&pages)[KvLayout::groups]);

 private:
  /// Pages of a group with keys and values that hold `length` positions.
  static std::size_t pages_of(std::size_t length) { return (length + kPage - 1) / kPage; }
  bool has(KvLayout::Group group) const { return pool_->layout().has(group); }
  std::size_t first_kept_page(std::size_t length) const;
  bool must_copy(KvLayout::Group group) const;
  Page take(KvLayout::Group group, const Page& from, std::vector<PageFill>& fills) const;
  void begin_group(KvLayout::Group group, std::size_t n, std::vector<PageFill>& fills);
  void begin_linear(bool can_roll_back, std::vector<PageFill>& fills);
  void trim();

  PagePool* pool_;
  std::size_t length_ = 0;
  bool begun_ = false;
  Page before_;  // the recurrent state at length_, between begin(n, true) and commit(); null at length 0
  std::vector<Page> pages_[KvLayout::groups];
};

}  // namespace krafla
