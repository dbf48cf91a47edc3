// What this machine offers: instruction sets (asked of the CPU and of the operating system), cores, caches
// and memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace krafla {

/// By the names of the kernels (src/kernels/CMakeLists.txt). Each is true only if the operating system also
/// saves the registers it uses.
struct CpuFeatures {
  bool scalar = true;
  bool sse2 = false;
  bool sse41 = false;       ///< with SSSE3
  bool avx2 = false;        ///< with F16C
  bool avxvnni = false;     ///< avx2 and AVX-VNNI
  bool avx512 = false;      ///< avx2 and AVX-512 F, BW, VL, DQ
  bool avx512vnni = false;  ///< avx512 and AVX-512 VNNI
  bool neon = false;        ///< every AArch64, most of 32-bit ARM
  bool dotprod = false;     ///< neon and FEAT_DotProd
  bool i8mm = false;        ///< dotprod and FEAT_I8MM
};
CpuFeatures cpu_features();

/// What this process may compute on.
struct CpuCores {
  int cpus = 1;      ///< logical CPUs in the affinity mask
  int cores = 1;     ///< physical cores among them: hyperthreads of one count once
  double quota = 0;  ///< CPUs' worth of time that the control groups allow; 0: no limit
};
CpuCores cpu_cores();

/// Physical cores in this process's affinity mask, at most the cgroup's CPU quota rounded up; at least 1.
int usable_cores();

/// A cache of the first CPU, as Linux tells it.
struct CpuCache {
  int level = 0;
  std::string type;  ///< Data, Instruction or Unified
  std::size_t bytes = 0;
  int shared_by = 1;  ///< logical CPUs
};
/// Level by level; empty where Linux does not say.
std::vector<CpuCache> cpu_caches();

/// Bytes of the second cache level that a thread may fill: half of it, or the thread's share where several CPUs
/// have it together, at most 1 MB. 256 KB where Linux does not say.
std::size_t l2_budget();

/// Bytes that this process may still take without driving the machine, or a control group it is in, to its
/// limit; 0 where Linux does not say.
std::uint64_t available_memory();

/// Bytes of memory this program has held at most; 0 where Linux does not say. (getrusage would count its
/// parent's, from before exec.)
std::uint64_t peak_memory();

/// The processor's own name for itself; empty where it has none.
std::string cpu_model();

}  // namespace krafla
