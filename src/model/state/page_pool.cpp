#include "model/state/page_pool.h"

#include <algorithm>

#include "base/error.h"
#include "base/round_up.h"

namespace krafla {

void Page::release() {
  if (slot_ != nullptr && slot_->holders.fetch_sub(1, std::memory_order_acq_rel) == 1)
    slot_->pool->give_back(slot_);
  slot_ = nullptr;
}

std::size_t PagePool::available() const {
  const std::size_t used = in_use_;
  return limit_ > used ? limit_ - used : 0;
}

Page PagePool::take(KvLayout::Group group) {
  const std::size_t size = layout_.page_bytes(group);
  const std::lock_guard lock(mutex_);
  if (size > available())
    fail(ML_E_MEMORY, "the KV cache is full: {} of {} bytes are in use, a page takes {}", in_use_.load(),
         limit_, size);
  if (free_[group].empty()) make_slab(group);
  Page::Slot* const slot = free_[group].back();
  free_[group].pop_back();
  in_use_ += size;
  // Free pages that were in use before are taken first: the system gives memory when it is touched.
  const std::size_t used = made_[group] - free_[group].size();
  if (used > most_used_[group]) {
    most_used_[group] = used;
    bytes_ += size;
  }
  slot->holders.store(1, std::memory_order_relaxed);
  return Page(slot);
}

/// Under the mutex. A slab consists of whole huge pages, since small pages are read more slowly. It is made
/// so large that at most a sixteenth of it is left over (32 MB always suffice). Memory that is never touched
/// costs address space only.
void PagePool::make_slab(KvLayout::Group group) {
  const std::size_t stride = round_up<std::size_t>(layout_.page_bytes(group), 64);
  std::size_t bytes = round_up(stride, kHugePage);
  while (bytes % stride > bytes / 16) bytes += kHugePage;
  const std::size_t count = bytes / stride;
  Slab slab{AlignedArray<std::byte>(bytes), std::make_unique<Page::Slot[]>(count)};
  free_[group].reserve(made_[group] + count);  // giving a page back then never allocates
  slabs_.push_back(std::move(slab));
  std::byte* const memory = slabs_.back().memory.data();
  for (std::size_t i = count; i-- > 0;) {
    Page::Slot& slot = slabs_.back().slots[i];
    slot.group = group;
    slot.pool = this;
    slot.memory = memory + i * stride;
    free_[group].push_back(&slot);
  }
  made_[group] += count;
}

void PagePool::give_back(Page::Slot* slot) {
  const std::lock_guard lock(mutex_);
  free_[slot->group].push_back(slot);
  in_use_ -= layout_.page_bytes(slot->group);
}

}  // namespace krafla
