#include "base/aligned.h"

#include <sys/mman.h>

namespace krafla {

void* allocate_aligned(std::size_t bytes) {
  const bool huge = bytes >= kHugePage;
  void* memory = nullptr;
  if (::posix_memalign(&memory, huge ? kHugePage : 64, bytes) != 0) throw std::bad_alloc();
  if (huge) advise_huge_pages(memory, bytes);
  return memory;
}

void advise_huge_pages([[maybe_unused]] const void* data, [[maybe_unused]] std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  ::madvise(const_cast<void*>(data), bytes, MADV_HUGEPAGE);
#endif
}

}  // namespace krafla
