// Properties of this machine: its instruction sets (those that both the CPU and the operating system
// support), cores, caches and memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace krafla {

/// Named as in src/kernels/CMakeLists.txt. A set counts only if the operating system also saves the registers
/// that it uses.
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

/// The CPUs that this process may use.
struct CpuCores {
  int cpus = 1;      ///< logical CPUs in the affinity mask
  int cores = 1;     ///< physical cores among them: hyperthreads of one core count once
  double quota = 0;  ///< CPU time per time that the control groups allow, in CPUs; 0: no limit
};
CpuCores cpu_cores();

/// Physical cores in this process's affinity mask, at most the cgroup's CPU quota rounded up; at least 1.
int usable_cores();

/// A cache of the first CPU, as Linux reports it.
struct CpuCache {
  int level = 0;
  std::string type;  ///< Data, Instruction or Unified
  std::size_t bytes = 0;
  int shared_by = 1;  ///< number of logical CPUs that share it
};
/// In ascending order of level; empty if Linux does not report them.
std::vector<CpuCache> cpu_caches();

/// How many bytes of the second cache level one thread may fill: half of it, or less if more CPUs share it,
/// but at most 1 MB. 256 KB if Linux does not report the caches.
std::size_t l2_budget();

/// Bytes that this process can still allocate before the machine, or one of its control groups, reaches its
/// limit; 0 if Linux does not report it.
std::uint64_t available_memory();

/// The peak resident memory of this process in bytes; 0 if Linux does not report it. (getrusage would include
/// the parent's memory from before exec.)
std::uint64_t peak_memory();

/// The model name that the processor reports; empty if there is none.
std::string cpu_model();

}  // namespace krafla
