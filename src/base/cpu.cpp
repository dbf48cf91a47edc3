#include "base/cpu.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <string>
#include <utility>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace krafla {

#if defined(__x86_64__) || defined(__i386__)
namespace {

/// The register state the operating system saves on a switch (XCR0).
unsigned saved_state() {
  unsigned eax = 0, edx = 0;
  __asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
  return eax;
}

}  // namespace

CpuFeatures cpu_features() {
  CpuFeatures f;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return f;
  f.sse2 = (d & bit_SSE2) != 0;
  f.sse41 = (c & bit_SSSE3) != 0 && (c & bit_SSE4_1) != 0;
  const unsigned saved = (c & bit_OSXSAVE) != 0 ? saved_state() : 0;
  constexpr unsigned kYmm = 0x06;  // XMM and the upper halves of YMM
  constexpr unsigned kZmm = 0xe6;  // also the mask registers and both parts of ZMM
  const bool f16c = (c & bit_F16C) != 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
  f.avx2 = (b & bit_AVX2) != 0 && f16c && (saved & kYmm) == kYmm;
  constexpr unsigned kAvx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ;
  f.avx512 = f.avx2 && (b & kAvx512) == kAvx512 && (saved & kZmm) == kZmm;
  f.avx512vnni = f.avx512 && (c & bit_AVX512VNNI) != 0;
  constexpr unsigned kAvxVnni = 1u << 4;  // GCC and clang name this bit differently
  f.avxvnni = f.avx2 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & kAvxVnni) != 0;
  return f;
}
#else
CpuFeatures cpu_features() { return {}; }
#endif

namespace {

int read_int(const std::string& path, int fallback) {
  std::ifstream in(path);
  int value = 0;
  return in >> value ? value : fallback;
}

/// CPUs' worth of time that cgroup v2 or v1 allows, or 0 when there is no limit.
double cgroup_quota() {
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period) return quota == "max" || period <= 0 ? 0 : std::stod(quota) / period;
  const int us = read_int("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", -1);
  const int per = read_int("/sys/fs/cgroup/cpu/cpu.cfs_period_us", 0);
  return us > 0 && per > 0 ? static_cast<double>(us) / per : 0;
}

}  // namespace

int usable_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return 1;
  std::set<std::pair<int, int>> cores;  // (package, core): hyperthreads of one core count once
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    cores.emplace(read_int(topology + "physical_package_id", 0), read_int(topology + "core_id", cpu));
  }
  int count = static_cast<int>(cores.size());
  const double quota = cgroup_quota();
  if (quota > 0) count = std::min(count, static_cast<int>(std::ceil(quota)));
  return std::max(count, 1);
}

}  // namespace krafla
