// A pool of threads for short parallel loops: a decode step runs some two hundred of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <thread>
#include <type_traits>
#include <vector>

namespace krafla {

/// Workers spin for some 50 microseconds after a loop, then sleep, so an idle pool costs nothing. Items are
/// handed out one by one, so cores of different speed balance; a worker that wakes late is not waited for.
/// One loop at a time: run() must not be called from two threads at once, nor from within a task.
class ThreadPool {
 public:
  /// `threads` in all, the caller of run() being one of them; 1 to 1024, else ML_E_ARG.
  /// ML_E_MEMORY if the system does not give that many.
  explicit ThreadPool(int threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls task(item, thread) once for each item in [0, items), thread in [0, size()); returns when all are
  /// done. items < 2^24. The first exception of a task is thrown again here, after the others have ended.
  template <class Task>
  void run(std::size_t items, Task&& task) {
    using Plain = std::remove_reference_t<Task>;
    run_erased(
        items,
        [](const void* t, std::size_t item, int thread) {
          (*static_cast<Plain*>(const_cast<void*>(t)))(item, thread);
        },
        &task);
  }

 private:
  using Call = void (*)(const void* task, std::size_t item, int thread);
  void run_erased(std::size_t items, Call call, const void* task);
  void take_items(int thread);
  void work(int thread);
  void wait_for_all(std::size_t items);
  void stop();

  // The current loop: (items << 32) | next item. One word, so that a claim is always of the loop it belongs
  // to.
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
  alignas(64) std::atomic<std::uint32_t> done_{0};
  alignas(64) std::atomic<std::uint32_t> epoch_{0};  // changes when a loop starts; what idle workers wait on
  std::atomic<Call> call_{nullptr};
  std::atomic<const void*> task_{nullptr};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;  // written by the one that set failed_
  std::vector<std::thread> workers_;
};

}  // namespace krafla
