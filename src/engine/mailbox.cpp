#include "engine/mailbox.h"

#include <iterator>

namespace krafla {
namespace {

template <class T>
void append(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

/// Whether `next` only goes on with what `last` says.
bool joins(const Event& last, const Event& next) {
  return last.kind == next.kind && last.choice == next.choice &&
         (next.kind == Event::Kind::tokens || next.kind == Event::Kind::prompt ||
          next.kind == Event::Kind::progress);
}

}  // namespace

void Mailbox::put(Event event) {
  {
    const std::lock_guard lock(mutex_);
    if (!events_.empty() && joins(events_.back(), event)) {
      Event& last = events_.back();
      append(last.ids, event.ids);
      last.text += event.text;
      append(last.parts, event.parts);
      append(last.logprobs, event.logprobs);
      last.positions = event.positions;
    } else {
      events_.push_back(std::move(event));
    }
  }
  came_.notify_one();
  if (notify) notify();
}

std::optional<Event> Mailbox::take(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  if (events_.empty() && wait.count() > 0) came_.wait_for(lock, wait, [&] { return !events_.empty(); });
  if (events_.empty()) return std::nullopt;
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

}  // namespace krafla
