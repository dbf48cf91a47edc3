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
  CpuFeatures features;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return features;
  const bool osxsave = (c & bit_OSXSAVE) != 0;
  const bool f16c = (c & bit_F16C) != 0;
  const bool ymm_saved = osxsave && (saved_state() & 6) == 6;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return features;
  features.avx2 = (b & bit_AVX2) != 0 && f16c && ymm_saved;
  return features;
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
