#include "model/state/sequence.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace krafla {

/// Of a windowed layer: the page of the oldest position that position `length` sees.
std::size_t Sequence::first_kept_page(std::size_t length) const {
  const std::size_t window = pool_->layout().window();
  return length + 1 > window ? (length + 1 - window) / kPage : 0;
}

/// Whether the page of the next position is half full and shared.
bool Sequence::must_copy(KvLayout::Group group) const {
  const std::size_t page = length_ / kPage;
  const std::vector<Page>& pages = pages_[group];
  return page < pages.size() && pages[page] && pages[page].is_shared();
}

std::size_t Sequence::bytes_for(std::size_t n, bool can_roll_back) const {
  const KvLayout& layout = pool_->layout();
  std::size_t bytes = 0;
  for (const auto group : {KvLayout::full, KvLayout::windowed}) {
    const std::size_t needed = pages_of(length_ + n);
    const std::size_t fresh = needed > pages_[group].size() ? needed - pages_[group].size() : 0;
    bytes += layout.page_bytes(group) * (fresh + (must_copy(group) ? 1 : 0));
  }
  const std::vector<Page>& state = pages_[KvLayout::linear];
  if (has(KvLayout::linear) && (state.empty() || can_roll_back || state.front().is_shared()))
    bytes += layout.page_bytes(KvLayout::linear);
  return bytes;
}

std::size_t Sequence::bytes() const {
  std::size_t bytes = 0;
  for (const auto group : {KvLayout::full, KvLayout::windowed, KvLayout::linear}) {
    const auto held = std::count_if(pages_[group].begin(), pages_[group].end(),
                                    [](const Page& page) { return bool(page); });
    bytes += static_cast<std::size_t>(held) * pool_->layout().page_bytes(group);
  }
  return bytes;
}

void Sequence::begin(std::size_t n, bool can_roll_back, std::vector<PageFill>& fills) {
  if (begun_) fail(ML_E_ARG, "a sequence is in the call twice");
  begun_ = true;
  for (const auto group : {KvLayout::full, KvLayout::windowed})
    if (has(group)) begin_group(group, n, fills);
  if (has(KvLayout::linear)) begin_linear(can_roll_back, fills);
}

/// A page of its own that gets the content of `from`, or zeros if that is null.
Page Sequence::take(KvLayout::Group group, const Page& from, std::vector<PageFill>& fills) const {
  fills.reserve(fills.size() + 1);  // nothing fails once the page is taken
  Page page = pool_->take(group);
  fills.push_back({page.data(), from, pool_->layout().page_bytes(group)});
  return page;
}

void Sequence::begin_group(KvLayout::Group group, std::size_t n, std::vector<PageFill>& fills) {
  std::vector<Page>& pages = pages_[group];
  if (group == KvLayout::windowed) {
    const std::size_t kept = std::min(first_kept_page(length_), pages.size());
    std::fill_n(pages.begin(), kept, Page());
  }
  if (must_copy(group)) {
    Page& last = pages[length_ / kPage];
    last = take(group, last, fills);
  }
  const std::size_t needed = pages_of(length_ + n);
  pages.reserve(needed);
  while (pages.size() < needed) pages.push_back(take(group, Page(), fills));
}

void Sequence::begin_linear(bool can_roll_back, std::vector<PageFill>& fills) {
  std::vector<Page>& state = pages_[KvLayout::linear];
  if (state.empty()) {
    state.reserve(1);
    state.push_back(take(KvLayout::linear, Page(), fills));
    return;
  }
  if (!can_roll_back && !state.front().is_shared()) return;
  Page own = take(KvLayout::linear, state.front(), fills);
  if (can_roll_back) before_ = state.front();
  state.front() = std::move(own);
}

void Sequence::commit(std::size_t n) {
  length_ += n;
  begun_ = false;
  before_ = Page();
}

void Sequence::rollback() {
  begun_ = false;
  if (before_) pages_[KvLayout::linear].front() = std::exchange(before_, Page());
  trim();
}

/// Gives back the pages behind the last position. The rest of a half-full page may keep old values: it is
/// never visible before it is written again.
void Sequence::trim() {
  for (auto& pages : pages_) pages.resize(std::min(pages.size(), pages_of(length_)));
}

bool Sequence::can_rewind(std::size_t length) const {
  if (length > length_) return false;
  if (length == length_ || length == 0) return true;
  if (has(KvLayout::linear)) return false;
  return !has(KvLayout::windowed) || pages_[KvLayout::windowed][first_kept_page(length)];
}

void Sequence::rewind(std::size_t length) {
  if (!can_rewind(length)) {
    const char* const reason = length > length_ ? "it is shorter"
                               : has(KvLayout::linear)
                                   ? "linear layers keep no past; go back to a copy made there, or to 0"
                                   : "the sliding window has passed";
    fail(ML_E_ARG, "a sequence of {} positions cannot be rewound to {}: {}", length_, length, reason);
  }
  length_ = length;
  trim();
}

Sequence Sequence::fork(std::size_t length) const {
  Sequence copy = *this;
  copy.rewind(length);
  return copy;
}

void Sequence::restore(std::size_t length, std::vector<Page> (&&pages)[KvLayout::groups]) {
  length_ = length;
  for (int group = 0; group < KvLayout::groups; ++group) pages_[group] = std::move(pages[group]);
}

void PageFill::run() const {
  if (from)
    std::memcpy(to, from.data(), bytes);
  else
    std::memset(to, 0, bytes);
}

}  // namespace krafla
