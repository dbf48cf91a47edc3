// What this machine offers: instruction sets (asked of the CPU and of the operating system) and cores.
#pragma once

namespace krafla {

/// By the names of the kernels (src/kernels/CMakeLists.txt). Each is true only if the operating system also saves the registers it uses.
struct CpuFeatures {
  bool scalar = true;
  bool sse2 = false;
  bool sse41 = false;       ///< with SSSE3
  bool avx2 = false;        ///< with F16C
  bool avxvnni = false;     ///< avx2 and AVX-VNNI
  bool avx512 = false;      ///< avx2 and AVX-512 F, BW, VL, DQ
  bool avx512vnni = false;  ///< avx512 and AVX-512 VNNI
};
CpuFeatures cpu_features();

/// Physical cores in this process's affinity mask, at most the cgroup's CPU quota rounded up; at least 1.
int usable_cores();

}  // namespace krafla
