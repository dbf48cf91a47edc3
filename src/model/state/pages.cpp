#include "model/state/pages.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace krafla {

KvLayout::KvLayout(const Mlb& mlb, KvType type)
    : type_(type),
      head_dim_(mlb.header.head_size()),
      kv_heads_(mlb.header.n_kv_heads),
      window_(mlb.header.sliding_window),
      recurrent_(mlb.header) {
  for (const MlbLayer& layer : mlb.layers) {
    const Group group = layer.flags & kLayerLinear ? linear : layer.flags & kLayerWindow ? windowed : full;
    places_.push_back({group, layers_[group]++});
  }
}

std::size_t KvLayout::head_bytes() const {
  const std::size_t blocks = (head_dim_ + kKvBlock - 1) / kKvBlock;
  switch (type_) {
    case KvType::q8_0: return (head_dim_ + blocks * sizeof(std::uint16_t)) * kPage;
    case KvType::f32: return head_dim_ * kPage * sizeof(float);
    default: return head_dim_ * kPage * sizeof(std::uint16_t);
  }
}

PagePool::Page PagePool::take(KvLayout::Group group) {
  const std::size_t size = layout_.page_bytes(group);
  std::byte* page = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (free_[group].empty()) make_slab(group);
    page = free_[group].back();
    free_[group].pop_back();
    // Its memory is untouched until it is first taken; free pages that were in use are taken first.
    const std::size_t used = made_[group] - free_[group].size();
    if (used > most_used_[group]) {
      most_used_[group] = used;
      bytes_ += size;
    }
  }
  std::memset(page, 0, size);
  return Page(page, [this, group](std::byte* p) { give_back(group, p); });
}

/// Under the mutex.
void PagePool::make_slab(KvLayout::Group group) {
  // Whole huge pages, for what is not of one is read slower: so many that at most a sixteenth is left over,
  // as is so from 32 MB on at the latest. What is not touched costs address space only.
  const std::size_t stride = (layout_.page_bytes(group) + 63) / 64 * 64;
  std::size_t bytes = (stride + kHugePage - 1) / kHugePage * kHugePage;
  while (bytes % stride > bytes / 16) bytes += kHugePage;
  const std::size_t count = bytes / stride;
  std::byte* const slab = slabs_.emplace_back(bytes).data();
  free_[group].reserve(made_[group] + count);  // so that giving a page back never allocates
  for (std::size_t i = count; i-- > 0;) free_[group].push_back(slab + i * stride);
  made_[group] += count;
}

void PagePool::give_back(KvLayout::Group group, std::byte* page) {
  const std::lock_guard lock(mutex_);
  free_[group].push_back(page);
}

void Sequence::prepare(std::size_t n, bool can_give_up) {
  for (const auto group : {KvLayout::full, KvLayout::windowed})
    if (pool_->layout().page_bytes(group) > 0) prepare_group(group, n);
  if (pool_->layout().page_bytes(KvLayout::linear) > 0) prepare_linear(can_give_up);
}

void Sequence::make_own(KvLayout::Group group, PagePool::Page& page) {
  if (page.use_count() <= 1) return;
  PagePool::Page own = pool_->take(group);
  std::memcpy(own.get(), page.get(), pool_->layout().page_bytes(group));
  page = std::move(own);
}

void Sequence::give_up() {
  if (before_) pages_[KvLayout::linear].front() = std::move(before_);
  before_.reset();
  advancing_ = false;
}

void Sequence::prepare_linear(bool can_give_up) {
  std::vector<PagePool::Page>& state = pages_[KvLayout::linear];
  if (advancing_ && length_ > 0)
    fail(ML_E_ARG,
         "a forward pass failed after {} positions and left the linear layers ahead; go on from a copy, or "
         "rewind to 0",
         length_);
  before_.reset();
  if (length_ == 0) state.clear();
  if (state.empty()) {
    state.push_back(pool_->take(KvLayout::linear));
    return;
  }
  if (can_give_up) before_ = state.front();
  make_own(KvLayout::linear, state.front());
}

void Sequence::prepare_group(KvLayout::Group group, std::size_t n) {
  std::vector<PagePool::Page>& pages = pages_[group];
  const std::size_t first = length_ / kPage;  // the page of the next position may be half full, and shared
  if (first < pages.size() && pages[first]) make_own(group, pages[first]);
  while (pages.size() * kPage < length_ + n) pages.push_back(pool_->take(group));
  if (group == KvLayout::windowed && length_ >= pool_->layout().window()) {
    const std::size_t oldest = length_ + 1 - pool_->layout().window();  // the next position sees from here on
    for (std::size_t i = 0; i < oldest / kPage; ++i) pages[i].reset();
  }
}

void Sequence::rewind(std::size_t length) {
  if (length > length_) fail(ML_E_ARG, "a sequence of {} positions cannot be rewound to {}", length_, length);
  if (pool_->layout().page_bytes(KvLayout::linear) > 0) {
    if (length == length_ && length > 0) return;
    if (length > 0)
      fail(ML_E_ARG,
           "a sequence of {} positions cannot be rewound to {}: the model has linear layers, which keep no "
           "past; go back to a copy of the "
           "sequence made at that length, or to 0",
           length_, length);
    advancing_ = false;
  }
  const std::uint32_t window = pool_->layout().window();
  const std::size_t oldest = length + 1 > window ? length + 1 - window : 0;
  if (!pages_[KvLayout::windowed].empty() && length > 0 && !pages_[KvLayout::windowed][oldest / kPage])
    fail(ML_E_ARG, "a sequence of {} positions cannot be rewound to {}: the sliding window of {} has passed",
         length_, length, window);
  length_ = length;
  for (auto& pages : pages_) {  // the linear layers' is kept or, at 0, given back
    pages.resize(std::min(pages.size(), (length + kPage - 1) / kPage));
    // The rest of a half-full page is never visible before it is written again, so it may keep old values.
  }
}

}  // namespace krafla
