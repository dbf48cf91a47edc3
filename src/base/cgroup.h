// The limits that Linux's control groups, version 1 or 2, impose on this process: the minimum over its group
// and all groups above it.
#pragma once

#include <cstdint>
#include <string>

namespace krafla {

/// The CPU time per time that the process may use, in CPUs; infinity: no limit. `root` is put before /proc
/// and /sys, so that tests can use their own files.
double cgroup_cpus(const std::string& root = "");

/// How many bytes the process can still allocate, at least 1. File pages that the system can drop count as
/// free. The largest number means no limit.
std::uint64_t cgroup_memory(const std::string& root = "");

}  // namespace krafla
