// What a forward pass computes with: the kernel table, the threads and their scratch memory. One forward at a
// time uses a context.
#pragma once

#include <vector>

#include "base/aligned.h"
#include "base/cpu.h"
#include "base/thread_pool.h"
#include "kernels/kernels.h"

namespace krafla {

class Context {
 public:
  /// n threads, the caller included (1 to 1024, else ML_E_ARG).
  Context(const Kernels& table, int n) : kernels(table), threads(n), scratch_(static_cast<std::size_t>(n)) {}

  const Kernels& kernels;
  ThreadPool threads;
  const std::size_t l2_budget =
      krafla::l2_budget();  ///< bytes of packed weights that a thread's gemm() may use

  /// Gives every thread scratch memory of at least `bytes` bytes, 64-byte aligned. Throws std::bad_alloc.
  void reserve_scratch(std::size_t bytes) {
    for (AlignedArray<std::byte>& own : scratch_) own.grow(bytes);
  }
  /// The thread's own scratch memory; what a call leaves there is lost at the next one.
  std::byte* scratch(int thread) { return scratch_[static_cast<std::size_t>(thread)].data(); }

 private:
  std::vector<AlignedArray<std::byte>> scratch_;
};

}  // namespace krafla
