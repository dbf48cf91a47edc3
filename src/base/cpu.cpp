#include "base/cpu.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "base/cgroup.h"
#include "base/system_files.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__aarch64__) || defined(__arm__)
#include <sys/auxv.h>
#endif

namespace krafla {

#if defined(__x86_64__) || defined(__i386__)
namespace {

/// The register state that the operating system saves on a context switch (XCR0).
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
#elif defined(__aarch64__)
CpuFeatures cpu_features() {
  // HWCAP_ASIMDDP and HWCAP2_I8MM, which older headers lack.
  constexpr unsigned long kDotProd = 1ul << 20, kI8mm = 1ul << 13;
  CpuFeatures f;
  f.neon = true;
  f.dotprod = (getauxval(AT_HWCAP) & kDotProd) != 0;
  f.i8mm = f.dotprod && (getauxval(AT_HWCAP2) & kI8mm) != 0;
  return f;
}
#elif defined(__arm__)
CpuFeatures cpu_features() {
  constexpr unsigned long kNeon = 1ul << 12;  // HWCAP_NEON
  CpuFeatures f;
  f.neon = (getauxval(AT_HWCAP) & kNeon) != 0;
  return f;
}
#else
CpuFeatures cpu_features() { return {}; }
#endif

std::uint64_t peak_memory() { return read_number_after("/proc/self/status", "VmHWM:").value_or(0) << 10; }

std::uint64_t available_memory() {
  const std::uint64_t machine = read_number_after("/proc/meminfo", "MemAvailable:").value_or(0) << 10;
  const std::uint64_t group = cgroup_memory();
  return machine > 0                                          ? std::min(machine, group)
         : group == std::numeric_limits<std::uint64_t>::max() ? 0
                                                              : group;
}

CpuCores cpu_cores() {
  CpuCores result;
  if (const double quota = cgroup_cpus(); !std::isinf(quota)) result.quota = quota;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return result;
  std::set<std::pair<int, int>> cores;  // (package, core)
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    cores.emplace(read_number<int>(topology + "physical_package_id").value_or(0),
                  read_number<int>(topology + "core_id").value_or(cpu));
  }
  result.cpus = std::max(CPU_COUNT(&mask), 1);
  result.cores = std::max(static_cast<int>(cores.size()), 1);
  return result;
}

int usable_cores() {
  const CpuCores cpu = cpu_cores();
  return cpu.quota > 0 ? std::max(std::min(cpu.cores, static_cast<int>(std::ceil(cpu.quota))), 1) : cpu.cores;
}

std::vector<CpuCache> cpu_caches() {
  std::vector<CpuCache> caches;
  for (int i = 0;; ++i) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + "/";
    CpuCache cache;
    std::ifstream type(folder + "type"), size(folder + "size"), shared(folder + "shared_cpu_map");
    cache.level = read_number<int>(folder + "level").value_or(0);
    char unit = 0;
    if (cache.level == 0 || !(type >> cache.type) || !(size >> cache.bytes >> unit)) return caches;
    cache.bytes <<= unit == 'M' ? 20 : 10;
    cache.shared_by = 0;
    for (char digit = 0; shared >> digit;)  // hexadecimal, in groups with commas
      if (digit != ',')
        cache.shared_by +=
            std::popcount(static_cast<unsigned>(digit <= '9' ? digit - '0' : digit - 'a' + 10));
    caches.push_back(cache);
  }
}

std::size_t l2_budget() {
  static const std::size_t bytes = [] {
    constexpr std::size_t kMost = std::size_t{1} << 20;  // virtual machines may report too much
    for (const CpuCache& cache : cpu_caches())
      if (cache.level == 2)
        return std::min(kMost, cache.bytes / static_cast<std::size_t>(std::max(2, cache.shared_by)));
    return std::size_t{256} << 10;
  }();
  return bytes;
}

std::string cpu_model() {
#if defined(__x86_64__) || defined(__i386__)
  std::array<unsigned, 12> words{};
  for (unsigned i = 0; i < 3; ++i)
    if (!__get_cpuid(0x80000002u + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]))
      return {};
  std::string name;
  for (const unsigned word : words)
    for (unsigned shift = 0; shift < 32; shift += 8)
      if (const char c = static_cast<char>(word >> shift);
          c > ' ' || (c == ' ' && !name.empty() && name.back() != ' '))
        name += c;
  if (name.ends_with(' ')) name.pop_back();
  return name;
#else
  return {};
#endif
}

}  // namespace krafla
