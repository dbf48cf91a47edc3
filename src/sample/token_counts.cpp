#include "sample/token_counts.h"

#include <algorithm>

namespace krafla {

void TokenCounts::add(std::int32_t id) {
  if (window_ == 0) return;
  if (is_counted(id) && counts_[static_cast<std::size_t>(id)]++ == 0) distinct_.push_back(id);
  if (window_ < 0) return;
  recent_.push_back(id);
  if (recent_.size() <= static_cast<std::size_t>(window_)) return;
  remove(recent_.front());
  recent_.pop_front();
}

void TokenCounts::remove(std::int32_t id) {
  if (!is_counted(id) || --counts_[static_cast<std::size_t>(id)] > 0) return;
  *std::find(distinct_.begin(), distinct_.end(), id) = distinct_.back();
  distinct_.pop_back();
}

}  // namespace krafla
