// Memory for the data of kernels and tables, aligned to cache lines or to huge pages.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace krafla {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// `bytes` of uninitialized memory, aligned to 64 bytes. From the size of a huge page on, it is aligned to
/// huge pages and requests them: a page fault every 2 MB instead of every 4 KB, and few TLB misses. A
/// remainder at the end has small pages. Release it with std::free(). Throws std::bad_alloc.
void* allocate_aligned(std::size_t bytes);

/// Requests huge pages for this memory. If the system ignores the request, only speed is lost.
void advise_huge_pages(const void* data, std::size_t bytes);

/// An allocator for std::vector that uses allocate_aligned().
template <class T>
struct AlignedAllocator {
  using value_type = T;
  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) {
  }  // NOLINT(google-explicit-constructor): required by the standard

  T* allocate(std::size_t n) {
    if (n > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_alloc();
    return static_cast<T*>(allocate_aligned(n * sizeof(T)));
  }
  void deallocate(T* memory, std::size_t) { std::free(memory); }
  bool operator==(const AlignedAllocator&) const { return true; }
};

/// An uninitialized array of T in memory of allocate_aligned(). Growing it discards its contents.
template <class T>
  requires std::is_trivially_copyable_v<T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(std::size_t n) { grow(n); }
  AlignedArray(AlignedArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  AlignedArray& operator=(AlignedArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  AlignedArray(const AlignedArray&) = delete;
  AlignedArray& operator=(const AlignedArray&) = delete;
  ~AlignedArray() { std::free(data_); }

  /// Makes room for at least n elements. Throws std::bad_alloc.
  void grow(std::size_t n) {
    if (n <= size_) return;
    T* fresh = AlignedAllocator<T>().allocate(n);
    std::free(data_);
    data_ = fresh;
    size_ = n;
  }
  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// For large tables with random access.
template <class T>
using AlignedVector = std::vector<T, AlignedAllocator<T>>;

}  // namespace krafla
