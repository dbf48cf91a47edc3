// The state of sequences, shared by counted handles: the KV cache in pages of 64 positions
// (docs/arithmetic.md A6), and what linear-attention layers remember (A7).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/aligned.h"
#include "formats/mlb.h"
#include "kernels/kernels.h"
#include "model/state/recurrent.h"

namespace krafla {

/// Which layers keep their pages together, and what a page holds. Layers behind the sliding window have page
/// lists of their own, so that their pages can be freed when the window has passed. Linear-attention layers
/// have one block of memory a sequence, whatever its length: it is handled as a page of the group `linear`.
class KvLayout {
 public:
  enum Group { full = 0, windowed = 1, linear = 2, groups = 3 };

  KvLayout(const Mlb& mlb, KvType type);

  KvType type() const { return type_; }
  std::size_t head_dim() const { return head_dim_; }
  Group group(std::size_t layer) const { return places_[layer].group; }
  std::size_t page_bytes(Group group) const {
    return layers_[group] * (group == linear ? recurrent_.bytes() : layer_bytes());
  }
  /// Bytes of one position's keys and values in one layer.
  std::size_t position_bytes() const { return layer_bytes() / kPage; }
  /// The last `window()` positions are visible to windowed layers.
  std::uint32_t window() const { return window_; }
  /// Byte offsets in the layer's page: K [kv_head][head_dim][64], then V [kv_head][64][head_dim]. With q8_0,
  /// each kv head's int8 are followed by its f16 scales: [blocks][64] for K, [64][blocks] for V.
  std::size_t k_offset(std::size_t layer, std::size_t kv_head) const {
    return places_[layer].index * layer_bytes() + kv_head * head_bytes();
  }
  std::size_t v_offset(std::size_t layer, std::size_t kv_head) const {
    return k_offset(layer, kv_heads_ + kv_head);
  }
  const RecurrentLayout& recurrent() const { return recurrent_; }
  /// Byte offset of a linear-attention layer's state.
  std::size_t recurrent_offset(std::size_t layer) const { return places_[layer].index * recurrent_.bytes(); }

 private:
  struct Place {
    Group group;
    std::size_t index;  // among the group's layers
  };
  std::size_t head_bytes() const;
  std::size_t layer_bytes() const { return 2 * kv_heads_ * head_bytes(); }

  KvType type_;
  std::size_t head_dim_;
  std::size_t kv_heads_;
  std::uint32_t window_;
  RecurrentLayout recurrent_;
  std::size_t layers_[groups] = {};
  std::vector<Place> places_;
};

/// Owns all pages of one model and KV type. Pages that nobody holds are kept for reuse. Thread-safe.
class PagePool {
 public:
  explicit PagePool(const KvLayout& layout) : layout_(layout) {}

  const KvLayout& layout() const { return layout_; }
  /// Bytes of all pages that were ever in use.
  std::size_t bytes() const { return bytes_; }

  using Page = std::shared_ptr<std::byte>;
  /// A page of zeros. Throws std::bad_alloc.
  Page take(KvLayout::Group group);

 private:
  void make_slab(KvLayout::Group group);
  void give_back(KvLayout::Group group, std::byte* page);

  KvLayout layout_;
  std::mutex mutex_;
  std::vector<AlignedArray<std::byte>> slabs_;  // several pages each, for huge pages
  std::vector<std::byte*> free_[KvLayout::groups];
  std::size_t made_[KvLayout::groups] = {}, most_used_[KvLayout::groups] = {};
  std::atomic<std::size_t> bytes_{0};
};

/// The state of one text: its pages, its linear layers' state and its length. Copies share both until one of
/// them writes, so a copy is a checkpoint that costs little. The pool must outlive it.
class Sequence {
 public:
  explicit Sequence(PagePool& pool) : pool_(&pool) {}

  const PagePool& pool() const { return *pool_; }
  /// Positions whose keys and values are held.
  std::size_t length() const { return length_; }

  /// Makes pages that are this sequence's own for positions [length, length + n), and frees those behind the
  /// window. ML_E_ARG after a forward pass that failed halfway and left linear layers ahead of the length.
  /// `can_give_up`: also keeps what give_up() goes back to.
  void prepare(std::size_t n, bool can_give_up = false);
  /// n more positions are written.
  void extend(std::size_t n) {
    length_ += n;
    advancing_ = false;
    before_.reset();
  }
  /// After prepare(n, true), instead of extend(): none of the n positions is written.
  void give_up();
  /// Forgets the positions from `length` on. ML_E_ARG if a windowed layer's pages before it are gone, or if
  /// the model has linear layers and `length` is neither 0 nor length(): their state has no past, and a copy
  /// kept at that length is what to go back to.
  void rewind(std::size_t length);

  /// The page's memory; page = position / 64. Null only where every window has passed.
  std::byte* page(KvLayout::Group group, std::size_t page) const { return pages_[group][page].get(); }
  /// A linear-attention layer's state (recurrent.h says what lies in it).
  std::byte* recurrent(std::size_t layer) const {
    return pages_[KvLayout::linear].front().get() + pool_->layout().recurrent_offset(layer);
  }
  /// To be called before a linear layer's state is moved on to the positions that were prepared.
  void advance() { advancing_ = true; }

 private:
  void prepare_group(KvLayout::Group group, std::size_t n);
  void prepare_linear(bool can_give_up);
  void make_own(KvLayout::Group group, PagePool::Page& page);

  PagePool* pool_;
  std::size_t length_ = 0;
  bool advancing_ = false;  // linear layers' state may be ahead of length_
  PagePool::Page
      before_;  // their state at length_, from prepare() on, if that can be given up; null at length 0
  std::vector<PagePool::Page> pages_[KvLayout::groups];
};

}  // namespace krafla
