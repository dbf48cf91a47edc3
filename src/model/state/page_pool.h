// The memory of all sequences of one model: pages, shared by counted handles, under a limit.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/aligned.h"
#include "model/state/kv_layout.h"

namespace krafla {

class PagePool;

/// A counted handle of a page, or null. Whoever writes to a page must be its only holder.
class Page {
 public:
  Page() = default;
  Page(const Page& other) : slot_(other.slot_) {
    if (slot_ != nullptr) slot_->holders.fetch_add(1, std::memory_order_relaxed);
  }
  Page(Page&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  Page& operator=(Page other) noexcept {
    std::swap(slot_, other.slot_);
    return *this;
  }
  ~Page() { release(); }

  explicit operator bool() const { return slot_ != nullptr; }
  /// Null for the null handle.
  std::byte* data() const { return slot_ == nullptr ? nullptr : slot_->memory; }
  bool is_shared() const { return slot_->holders.load(std::memory_order_acquire) > 1; }
  /// Tells pages apart: two handles of one page have the same.
  const void* id() const { return slot_; }

 private:
  friend class PagePool;
  /// A page and the number of its handles.
  struct Slot {
    std::atomic<std::uint32_t> holders{0};
    KvLayout::Group group = KvLayout::full;
    PagePool* pool = nullptr;
    std::byte* memory = nullptr;
  };
  explicit Page(Slot* slot) : slot_(slot) {}
  void release();

  Slot* slot_ = nullptr;
};

/// Owns the pages of a model and KV type; those that nobody holds are kept for reuse. Thread-safe. Must
/// outlive its pages.
class PagePool {
 public:
  static constexpr std::size_t kNoLimit = static_cast<std::size_t>(-1);

  /// `limit`: bytes of the pages in use at any time.
  explicit PagePool(const KvLayout& layout, std::size_t limit = kNoLimit) : layout_(layout), limit_(limit) {}
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  const KvLayout& layout() const { return layout_; }
  /// Bytes of the pages that are held now.
  std::size_t in_use() const { return in_use_; }
  /// Bytes that can still be taken.
  std::size_t available() const;
  std::size_t limit() const { return limit_; }
  /// Bytes of memory that the pages have taken from the system so far.
  std::size_t bytes() const { return bytes_; }

  /// A page whose content is undefined. ML_E_MEMORY beyond the limit; std::bad_alloc where the system gives
  /// no more.
  Page take(KvLayout::Group group);

 private:
  friend class Page;
  /// Several pages in one piece of memory, for huge pages.
  struct Slab {
    AlignedArray<std::byte> memory;
    std::unique_ptr<Page::Slot[]> slots;
  };
  void make_slab(KvLayout::Group group);
  void give_back(Page::Slot* slot);

  KvLayout layout_;
  std::size_t limit_;
  std::mutex mutex_;
  std::vector<Slab> slabs_;
  std::vector<Page::Slot*> free_[KvLayout::groups];
  std::size_t made_[KvLayout::groups] = {}, most_used_[KvLayout::groups] = {};
  std::atomic<std::size_t> in_use_{0}, bytes_{0};
};

}  // namespace krafla
