#include "base/cgroup.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

#include "base/system_files.h"

namespace krafla {
namespace {

/// The path of this process's group: the text after the second colon of a line in /proc/self/cgroup.
/// `controller` names a controller of version 1; if empty, the line is that of version 2.
std::string group_path(const std::string& root, std::string_view controller) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view all = std::string_view(line).substr(first + 1, second - first - 1);
    if (controller.empty()
            ? all.empty()
            : fmt::format(",{},", all).find(fmt::format(",{},", controller)) != std::string::npos)
      return line.substr(second + 1);
  }
  return "/";
}

/// The minimum of grant(folder) over the folders of this process's group and of all groups above it. In a
/// container, the path may be the host's. Then only its end, or nothing of it, exists below /sys/fs/cgroup;
/// the root there always counts.
template <class Grant>
auto least_grant(const std::string& root, std::string_view controller, Grant grant) {
  const std::string mount = fmt::format("{}/sys/fs/cgroup/{}", root, controller);
  std::string path = group_path(root, controller);
  if (!path.ends_with('/')) path += '/';
  auto least = grant(mount + path);
  while (path.size() > 1) {
    path.resize(path.rfind('/', path.size() - 2) + 1);
    least = std::min(least, grant(mount + path));
  }
  return least;
}

double cpus(double quota, double period) {
  return quota > 0 && period > 0 ? quota / period : std::numeric_limits<double>::infinity();
}

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

/// What is left of a limit. `droppable` bytes of file pages are dropped before the limit is reached.
std::uint64_t left(std::optional<std::uint64_t> limit, std::optional<std::uint64_t> used,
                   std::uint64_t droppable) {
  if (!limit || !used) return kNoLimit;
  *used -= std::min(*used, droppable);
  return *limit > *used ? *limit - *used : 1;
}

}  // namespace

double cgroup_cpus(const std::string& root) {
  const double v2 = least_grant(root, "", [](const std::string& folder) {
    std::ifstream in(folder + "cpu.max");
    double quota = -1, period = 0;
    return in >> quota >> period ? cpus(quota, period) : cpus(-1, 0);  // "max", or no such group
  });
  const double v1 = least_grant(root, "cpu", [](const std::string& folder) {
    return cpus(read_number<double>(folder + "cpu.cfs_quota_us").value_or(-1),
                read_number<double>(folder + "cpu.cfs_period_us").value_or(0));
  });
  return std::min(v1, v2);
}

std::uint64_t cgroup_memory(const std::string& root) {
  const auto number = read_number<std::uint64_t>;
  const std::uint64_t v2 = least_grant(root, "", [&](const std::string& folder) {
    const auto used = number(folder + "memory.current");
    const std::uint64_t droppable = read_number_after(folder + "memory.stat", "inactive_file").value_or(0);
    // Above "high", the system slows the group down until it is below again.
    return std::min(left(number(folder + "memory.max"), used, droppable),
                    left(number(folder + "memory.high"), used, droppable));
  });
  const std::uint64_t v1 = least_grant(root, "memory", [&](const std::string& folder) {
    return left(number(folder + "memory.limit_in_bytes"), number(folder + "memory.usage_in_bytes"),
                read_number_after(folder + "memory.stat", "total_inactive_file").value_or(0));
  });
  return std::min(v1, v2);
}

}  // namespace krafla
