// What Linux's control groups, of version 1 or 2, leave to this process: the least that its group and those
// above it grant.
#pragma once

#include <cstdint>
#include <string>

namespace krafla {

/// CPUs' worth of time; infinity: no limit. `root` stands before /proc and /sys: tests have their own.
double cgroup_cpus(const std::string& root = "");

/// Bytes that may still be taken, file pages that can be dropped included, at least 1; the largest number: no
/// limit.
std::uint64_t cgroup_memory(const std::string& root = "");

}  // namespace krafla
