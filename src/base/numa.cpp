#include "base/numa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace krafla {

// libc has no wrappers for the two calls. The constants are the kernel's (uapi/linux/mempolicy.h).
void interleave_memory() {
#if defined(SYS_set_mempolicy) && defined(SYS_get_mempolicy)
  constexpr int kInterleave = 3;
  constexpr unsigned long kAllowed = 4;   // MPOL_F_MEMS_ALLOWED
  std::array<unsigned long, 64> nodes{};  // 4096 nodes: more than any kernel has
  constexpr unsigned long kBits = sizeof nodes * 8;
  if (::syscall(SYS_get_mempolicy, nullptr, nodes.data(), kBits, nullptr, kAllowed) == 0 &&
      ::syscall(SYS_set_mempolicy, kInterleave, nodes.data(), kBits) == 0)
    return;
  fail(ML_E_UNSUPPORTED, "memory cannot be spread over NUMA nodes: {}", std::strerror(errno));
#else
  fail(ML_E_UNSUPPORTED, "memory cannot be spread over NUMA nodes: this system has no such policy");
#endif
}

}  // namespace krafla
