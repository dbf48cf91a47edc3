#include "base/thread_pool.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/float_env.h"

namespace krafla {
namespace {

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/// Spins until ready() or until about 50 microseconds have passed; returns whether it is ready.
template <class Ready>
bool spin_until(Ready ready) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return ready();
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  if (threads < 1 || threads > 1024) fail(ML_E_ARG, "threads is {}; 1 to 1024 are allowed", threads);
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& e) {
    const std::size_t made = workers_.size() + 1;
    stop();
    fail(ML_E_MEMORY, "only {} of {} threads could be started ({})", made, threads, e.what());
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stopping_ = true;
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void ThreadPool::work(int thread) {
  const FloatEnvironment environment;
  std::uint32_t seen = 0;
  for (;;) {
    const auto started = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
    if (!spin_until(started)) epoch_.wait(seen, std::memory_order_acquire);
    seen = epoch_.load(std::memory_order_acquire);
    // stop() sets stopping_ before it changes the epoch. So a worker that reads the new epoch first, as here,
    // cannot miss it.
    if (stopping_) return;
    take_items(thread);
  }
}

void ThreadPool::take_items(int thread) {
  for (;;) {
    const std::uint64_t claim = ticket_.fetch_add(1, std::memory_order_acq_rel);
    const std::uint64_t items = claim >> 32;
    const std::uint64_t item = claim & 0xffffffffu;
    if (item >= items) return;
    // The loop cannot end before this item is done, so call_ and task_ belong to this loop.
    try {
      call_.load(std::memory_order_relaxed)(task_.load(std::memory_order_relaxed),
                                            static_cast<std::size_t>(item), thread);
    } catch (...) {
      if (!failed_.exchange(true)) error_ = std::current_exception();
    }
    if (done_.fetch_add(1, std::memory_order_acq_rel) + 1 == items) done_.notify_one();
  }
}

void ThreadPool::wait_for_all(std::size_t items) {
  const auto finished = [&] { return done_.load(std::memory_order_acquire) == items; };
  while (!spin_until(finished)) {
    const std::uint32_t now = done_.load(std::memory_order_acquire);
    if (now != items) done_.wait(now, std::memory_order_acquire);
  }
}

void ThreadPool::run_erased(std::size_t items, Call call, const void* task) {
  if (workers_.empty() || items <= 1) {
    for (std::size_t item = 0; item < items; ++item) call(task, item, 0);
    return;
  }
  done_.store(0, std::memory_order_relaxed);
  call_.store(call, std::memory_order_relaxed);
  task_.store(task, std::memory_order_relaxed);
  ticket_.store(static_cast<std::uint64_t>(items) << 32, std::memory_order_release);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  take_items(0);
  wait_for_all(items);
  if (failed_.exchange(false)) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace krafla
