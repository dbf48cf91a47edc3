#include "model/state/pages.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace krafla {

KvLayout::KvLayout(const Mlb& mlb, KvType type)
    : type_(type), head_dim_(mlb.header.head_size()), kv_heads_(mlb.header.n_kv_heads), window_(mlb.header.sliding_window) {
  for (const MlbLayer& layer : mlb.layers) {
    const Group group = layer.flags & kLayerWindow ? windowed : full;
    places_.push_back({group, layers_[group]++});
  }
}

PagePool::Page PagePool::take(KvLayout::Group group) {
  AlignedArray<std::byte> memory;
  {
    const std::lock_guard lock(mutex_);
    if (!free_[group].empty()) {
      memory = std::move(free_[group].back());
      free_[group].pop_back();
    }
  }
  if (memory.size() == 0) {
    memory.grow(layout_.page_bytes(group));
    const std::lock_guard lock(mutex_);
    bytes_ += memory.size();
    free_[group].reserve(++made_[group]);  // so that giving a page back never allocates
  }
  std::memset(memory.data(), 0, memory.size());
  std::byte* data = memory.data();
  auto holder = std::make_shared<AlignedArray<std::byte>>(std::move(memory));
  return Page(data, [this, group, holder](std::byte*) { give_back(group, std::move(*holder)); });
}

void PagePool::give_back(KvLayout::Group group, AlignedArray<std::byte> memory) {
  const std::lock_guard lock(mutex_);
  free_[group].push_back(std::move(memory));
}

void Sequence::prepare(std::size_t n) {
  for (const auto group : {KvLayout::full, KvLayout::windowed})
    if (pool_->layout().page_bytes(group) > 0) prepare_group(group, n);
}

void Sequence::prepare_group(KvLayout::Group group, std::size_t n) {
  std::vector<PagePool::Page>& pages = pages_[group];
  const std::size_t first = length_ / kPage;  // the page of the next position may be half full, and shared
  if (first < pages.size() && pages[first] && pages[first].use_count() > 1) {
    PagePool::Page own = pool_->take(group);
    std::memcpy(own.get(), pages[first].get(), pool_->layout().page_bytes(group));
    pages[first] = std::move(own);
  }
  while (pages.size() * kPage < length_ + n) pages.push_back(pool_->take(group));
  if (group == KvLayout::windowed && length_ >= pool_->layout().window()) {
    const std::size_t oldest = length_ + 1 - pool_->layout().window();  // the next position sees from here on
    for (std::size_t i = 0; i < oldest / kPage; ++i) pages[i].reset();
  }
}

void Sequence::rewind(std::size_t length) {
  if (length > length_) fail(ML_E_ARG, "a sequence of {} positions cannot be rewound to {}", length_, length);
  const std::uint32_t window = pool_->layout().window();
  const std::size_t oldest = length + 1 > window ? length + 1 - window : 0;
  if (!pages_[KvLayout::windowed].empty() && length > 0 && !pages_[KvLayout::windowed][oldest / kPage])
    fail(ML_E_ARG, "a sequence of {} positions cannot be rewound to {}: the sliding window of {} has passed", length_, length, window);
  length_ = length;
  for (auto& pages : pages_) {
    pages.resize(std::min(pages.size(), (length + kPage - 1) / kPage));
    // The rest of a half-full page is never visible before it is written again, so it may keep old values.
  }
}

}  // namespace krafla
