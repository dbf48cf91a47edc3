// A thread pool for short parallel loops. A decode step runs about two hundred of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <thread>
#include <type_traits>
#include <vector>

namespace krafla {

/// After a loop, workers spin for about 50 microseconds and then sleep, so an idle pool takes no CPU time.
/// Items are assigned one by one, which balances cores of different speed; run() does not wait for sleeping
/// workers. Only one loop can run: run() must not be called by two threads at once or from within a task.
class ThreadPool {
 public:
  /// `threads` counts the caller of run() too; 1 to 1024, else ML_E_ARG.
  /// ML_E_MEMORY if the system cannot start so many threads.
  explicit ThreadPool(int threads);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls task(item, thread) once for each item in [0, items), with thread in [0, size()), and returns when
  /// all are done. items < 2^24. The first exception of a task is rethrown after all tasks have ended.
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

  // The current loop: (items << 32) | next item. With both in one word, a worker can never claim an item of
  // another loop.
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
  alignas(64) std::atomic<std::uint32_t> done_{0};
  alignas(64) std::atomic<std::uint32_t> epoch_{0};  // changes when a loop starts; idle workers wait for that
  std::atomic<Call> call_{nullptr};
  std::atomic<const void*> task_{nullptr};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> failed_{false};
  std::exception_ptr error_;  // written by the thread that set failed_
  std::vector<std::thread> workers_;
};

}  // namespace krafla
