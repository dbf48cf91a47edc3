// What this machine offers: instruction sets (asked of the CPU and of the operating system) and cores.
#pragma once

namespace krafla {

struct CpuFeatures {
  bool avx2 = false;  ///< with F16C, and the OS saves the YMM registers
};
CpuFeatures cpu_features();

/// Physical cores in this process's affinity mask, at most the cgroup's CPU quota rounded up; at least 1.
int usable_cores();

}  // namespace krafla
