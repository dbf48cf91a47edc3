#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

#include "base/error.h"

namespace krafla {
namespace {

TEST(ThreadPool, EveryItemOnceAndResultsAreVisible) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (std::size_t items = 0; items < 300; ++items) {
      std::vector<int> hits(
          items);  // plain ints: a lost or doubled item, or missing synchronization, shows (also to TSan)
      pool.run(items, [&](std::size_t item, int thread) {
        ASSERT_LT(thread, threads);
        ++hits[item];
      });
      for (const int hit : hits) ASSERT_EQ(hit, 1);
    }
  }
}

TEST(ThreadPool, SleepersWakeAndLateWorkersDoNoHarm) {
  ThreadPool pool(4);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> sum{0};
    pool.run(3, [&](std::size_t item, int) { sum += static_cast<int>(item); });
    ASSERT_EQ(sum, 3);
    if (round % 10 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

/// A worker that wakes for a loop may meet the pool's end instead, at any of its steps: a lost wake-up hangs
/// here.
TEST(ThreadPool, EndsWhileWorkersWake) {
  for (int round = 0; round < 2000; ++round) {
    ThreadPool pool(8);
    const auto pause =
        std::chrono::microseconds(round % 2 == 0 ? 0 : 80);  // the second puts workers to sleep first
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    for (int loop = 0; loop < 3; ++loop) pool.run(2, [](std::size_t, int) {});
  }
}

TEST(ThreadPool, FirstExceptionComesBackAndThePoolLives) {
  ThreadPool pool(3);
  std::atomic<int> done{0};
  EXPECT_THROW(pool.run(50,
                        [&](std::size_t item, int) {
                          ++done;
                          if (item == 7) fail(ML_E_ARG, "seven");
                        }),
               Error);
  EXPECT_EQ(done, 50);
  pool.run(10, [&](std::size_t, int) { ++done; });
  EXPECT_EQ(done, 60);
}

TEST(ThreadPool, IdleUsesNoCpu) {
  ThreadPool pool(4);
  pool.run(100, [](std::size_t, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 50);
}

TEST(ThreadPool, RefusesSillySizes) {
  EXPECT_THROW(ThreadPool(0), Error);
  EXPECT_THROW(ThreadPool(100000), Error);
}

}  // namespace
}  // namespace krafla
