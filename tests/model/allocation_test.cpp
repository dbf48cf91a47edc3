// Nothing is allocated for a token: what decoding needs is there after the first steps, but for a new page
// every 64 positions. And where there is no memory, nothing that is in use is lost or given out twice.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "model/forward.h"

namespace {

std::atomic<long> allocations{0};
std::atomic<long> refused{0};  // which allocation from here on fails, counted from 1; 0: none

void* counted_new(std::size_t size, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (refused > 0 && refused.fetch_sub(1) == 1) throw std::bad_alloc();
  void* memory = nullptr;
  if (::posix_memalign(&memory, alignment < sizeof(void*) ? sizeof(void*) : alignment, size) != 0)
    throw std::bad_alloc();
  return memory;
}

}  // namespace

// Not inlined: g++ would take one for another's and warn.
#define KRAFLA_NOINLINE __attribute__((noinline))
KRAFLA_NOINLINE void* operator new(std::size_t size) { return counted_new(size, alignof(std::max_align_t)); }
KRAFLA_NOINLINE void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted_new(size, static_cast<std::size_t>(alignment));
}
KRAFLA_NOINLINE void operator delete(void* memory) noexcept { std::free(memory); }
KRAFLA_NOINLINE void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
KRAFLA_NOINLINE void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
KRAFLA_NOINLINE void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace krafla {
namespace {

TEST(Allocation, NoneForATokenWithinAPage) {
  for (const char* name : {"all-q4.mlb", "linear-wide-q4.mlb", "llama3-q8.mlb"}) {
    SCOPED_TRACE(name);
    for (const int threads : {1, 3}) {
      Context context(choose_kernels(""), threads);
      const Model model(std::string(KRAFLA_TEST_DATA) + "/models/" + name, context.threads);
      PagePool pool(KvLayout(model.config(), KvType::f16));
      Sequence sequence(pool);
      Batch batch;
      std::vector<float> logits(model.header().vocab);
      const auto step = [&](std::size_t i) {
        const auto token = static_cast<std::int32_t>(i % model.header().vocab);
        const Feed feed{&sequence, {&token, 1}, Wants::last};
        forward(model, context, batch, {&feed, 1});
        classify(model, context, batch, 0, 1, logits.data());
      };
      for (std::size_t i = 0; i < 4; ++i) step(i);
      const long before = allocations;
      for (std::size_t i = 4; i < 60; ++i) step(i);
      EXPECT_EQ(allocations - before, 0);
      for (std::size_t i = 60; i < 70; ++i) step(i);
      EXPECT_GT(allocations - before, 0);  // the count counts
    }
  }
}

TEST(Allocation, PagesOutliveOneThatFails) {
  Context context(choose_kernels(""), 1);
  const Model model(std::string(KRAFLA_TEST_DATA) + "/models/llama3-q8.mlb", context.threads);
  const KvLayout layout(model.config(), KvType::f16);
  const std::size_t bytes = layout.page_bytes(KvLayout::full);
  long failures = 0;
  for (bool failed = true; failed; ++failures) {
    PagePool pool(layout);
    refused = failures + 1;
    try {
      pool.take(KvLayout::full);
      failed = false;
    } catch (const std::bad_alloc&) {
    }
    refused = 0;
    Page pages[3];
    for (int i = 0; i < 3; ++i) std::memset((pages[i] = pool.take(KvLayout::full)).data(), i + 1, bytes);
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(static_cast<int>(pages[i].data()[bytes - 1]), i + 1) << "after failure " << failures;
  }
  EXPECT_GT(failures, 2);  // the slots of a slab, the list of free pages, the list of slabs
}

}  // namespace
}  // namespace krafla
