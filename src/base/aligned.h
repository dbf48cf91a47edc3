// Growable memory on 64-byte boundaries.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

namespace krafla {

/// An uninitialized array of T on a 64-byte boundary. Growing it loses its contents.
template <class T>
  requires std::is_trivially_copyable_v<T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(std::size_t n) { grow(n); }
  AlignedArray(AlignedArray&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  AlignedArray& operator=(AlignedArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  AlignedArray(const AlignedArray&) = delete;
  AlignedArray& operator=(const AlignedArray&) = delete;
  ~AlignedArray() { ::operator delete(data_, std::align_val_t{64}); }

  /// At least n elements. Throws std::bad_alloc.
  void grow(std::size_t n) {
    if (n <= size_) return;
    if (n > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_alloc();
    T* fresh = static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{64}));
    ::operator delete(data_, std::align_val_t{64});
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

}  // namespace krafla
