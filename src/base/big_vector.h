// Vectors for tables that are looked up all over.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <vector>

namespace krafla {

/// From one huge page on, memory is on a boundary of them, and the system is asked to use them: a large table costs a fault for every
/// 2 MB instead of every 4 KB, and its look-ups miss the TLB less. What is left over at the end has small pages.
template <class T>
struct BigAllocator {
  using value_type = T;
  BigAllocator() = default;
  template <class U>
  BigAllocator(const BigAllocator<U>&) {}  // NOLINT(google-explicit-constructor): as the standard wants it

  T* allocate(std::size_t n) {
    constexpr std::size_t kHugePage = std::size_t{2} << 20;
    if (n > static_cast<std::size_t>(-1) / 2 / sizeof(T)) throw std::bad_alloc();
    const std::size_t bytes = n * sizeof(T);
    if (bytes < kHugePage) return static_cast<T*>(check(std::malloc(bytes)));
    void* memory = nullptr;
    if (::posix_memalign(&memory, kHugePage, bytes) != 0) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    ::madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: without it the table is as right
#endif
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t) { std::free(memory); }
  bool operator==(const BigAllocator&) const { return true; }

 private:
  static void* check(void* memory) { return memory != nullptr ? memory : throw std::bad_alloc(); }
};

template <class T>
using BigVector = std::vector<T, BigAllocator<T>>;

}  // namespace krafla
