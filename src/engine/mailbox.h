// The way from the engine's thread to whoever waits for an answer.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "engine/request.h"

namespace krafla {

/// Holds the events of one request until they are read. The writer never waits: a slow reader finds several
/// tokens in one event, so what waits is never more than the answer.
class Mailbox {
 public:
  void put(Event event);
  /// The next event, or nothing if none has come within `wait`.
  std::optional<Event> take(std::chrono::milliseconds wait);
  /// Called by the engine's thread after each put(); must return at once. Set before the request is submitted
  /// or never.
  std::function<void()> notify;
  std::atomic<bool> cancelled{false};

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Event> events_;
};

/// A submitted request in its owner's hands. Giving it up cancels the request.
class RequestHandle {
 public:
  explicit RequestHandle(std::shared_ptr<Mailbox> mailbox) : mailbox_(std::move(mailbox)) {}
  RequestHandle(RequestHandle&&) = default;
  RequestHandle& operator=(RequestHandle&&) = default;
  ~RequestHandle() {
    if (mailbox_) cancel();
  }

  /// The next event, or nothing if none has come within `wait`. Any thread, one at a time.
  std::optional<Event> next(std::chrono::milliseconds wait = std::chrono::milliseconds(0)) {
    return mailbox_->take(wait);
  }
  /// Its work ends within a step; it then still gets its last events. Any thread.
  void cancel() { mailbox_->cancelled = true; }

 private:
  std::shared_ptr<Mailbox> mailbox_;
};

}  // namespace krafla
