#include "base/cgroup.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "../formats/test_files.h"

namespace krafla {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

/// /proc and /sys of a test's own.
class CgroupTest : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void process_is_in(const std::string& lines) const { write("/proc/self/cgroup", lines); }
  void v2(const std::string& group, const std::string& file, const std::string& text) const {
    write("/sys/fs/cgroup" + group + file, text);
  }
  /// A group of version 2: at most `limit`, of which `used` are taken, and of those `inactive` could be
  /// dropped.
  void memory_v2(const std::string& group, const std::string& limit, std::uint64_t used,
                 std::uint64_t inactive) const {
    v2(group, "memory.max", limit + "\n");
    v2(group, "memory.current", std::to_string(used) + "\n");
    v2(group, "memory.stat",
       "anon 5\nfile 7\ninactive_file " + std::to_string(inactive) + "\nactive_file 9\n");
  }
  void memory_v1(const std::string& group, std::uint64_t limit, std::uint64_t used,
                 std::uint64_t inactive) const {
    const std::string folder = "/sys/fs/cgroup/memory" + group;
    write(folder + "memory.limit_in_bytes", std::to_string(limit) + "\n");
    write(folder + "memory.usage_in_bytes", std::to_string(used) + "\n");
    write(folder + "memory.stat", "inactive_file 1\ntotal_inactive_file " + std::to_string(inactive) + "\n");
  }
  std::uint64_t memory() const { return cgroup_memory(root()); }
  double cpus() const { return cgroup_cpus(root()); }

 private:
  std::string root() const { return folder_.file("root"); }
  TemporaryFolder folder_;
};

TEST_F(CgroupTest, WithoutGroupsThereIsNoLimit) {
  EXPECT_EQ(memory(), kNoLimit);
  EXPECT_TRUE(std::isinf(cpus()));
  process_is_in("0::/a\n");
  EXPECT_EQ(memory(), kNoLimit);
  v2("/a/", "memory.max", "1000\n");  // what is used of it is not told
  EXPECT_EQ(memory(), kNoLimit);
}

TEST_F(CgroupTest, MemoryIsTheLeastThatAnyGroupAboveLeaves) {
  process_is_in("0::/a/b/c\n");
  memory_v2("/a/b/c/", "max", 100, 0);
  EXPECT_EQ(memory(), kNoLimit);
  memory_v2("/a/", "9000", 5000, 1000);
  EXPECT_EQ(memory(), 5000u);
  memory_v2("/a/b/", "3000", 1000, 0);
  EXPECT_EQ(memory(), 2000u);
  memory_v2("/a/b/c/", "800", 100, 0);
  EXPECT_EQ(memory(), 700u);
  memory_v2("/", "400", 100, 50);
  EXPECT_EQ(memory(), 350u);
  memory_v2("/other/", "10", 1, 0);
  memory_v2("/a/b/c/d/", "10", 1, 0);
  EXPECT_EQ(memory(), 350u);  // not above this process
}

TEST_F(CgroupTest, MemoryBeyondHighIsNotHad) {
  process_is_in("0::/a\n");
  memory_v2("/a/", "max", 100, 20);
  v2("/a/", "memory.high", "500\n");
  EXPECT_EQ(memory(), 420u);
  v2("/a/", "memory.high", "max\n");
  EXPECT_EQ(memory(), kNoLimit);
}

TEST_F(CgroupTest, AFullGroupLeavesNextToNothing) {
  process_is_in("0::/a\n");
  memory_v2("/a/", "500", 700, 0);
  EXPECT_EQ(memory(), 1u);
  memory_v2("/a/", "500", 100,
            700);  // more that could be dropped than is used: the two are read one after the other
  EXPECT_EQ(memory(), 500u);
}

TEST_F(CgroupTest, Version1) {
  constexpr std::uint64_t kUnlimited = 9223372036854771712u;  // how version 1 says it
  process_is_in("12:cpu,cpuacct:/x\n5:memory:/a/b\n3:memory2:/z\n0::/\n");
  memory_v1("/a/b/", kUnlimited, 100, 0);
  EXPECT_GT(memory(), std::uint64_t{1} << 62);
  memory_v1("/a/", 9000, 5000, 1000);
  EXPECT_EQ(memory(), 5000u);
  memory_v1("/a/b/", 800, 100, 0);
  EXPECT_EQ(memory(), 700u);
  memory_v1("/", 400, 100, 50);
  EXPECT_EQ(memory(), 350u);
  memory_v1("/x/", 10, 1, 0);
  memory_v1("/z/", 10, 1, 0);
  EXPECT_EQ(memory(), 350u);
}

TEST_F(CgroupTest, InAContainerThePathMayBeTheHosts) {
  process_is_in("0::/system.slice/docker-1.scope\n");
  memory_v2("/", "1000", 200, 0);
  v2("/", "cpu.max", "50000 100000\n");
  EXPECT_EQ(memory(), 800u);
  EXPECT_EQ(cpus(), 0.5);
  process_is_in("0::/../../outside\n");
  EXPECT_EQ(memory(), 800u);
  process_is_in("broken\n0:\n\n");
  EXPECT_EQ(memory(), 800u);
}

TEST_F(CgroupTest, QuotaIsTheLeastOfAnyGroupAbove) {
  process_is_in("7:cpuacct,cpu:/q\n0::/a/b\n");
  v2("/a/b/", "cpu.max", "max 100000\n");
  EXPECT_TRUE(std::isinf(cpus()));
  v2("/a/", "cpu.max", "350000 100000\n");
  EXPECT_EQ(cpus(), 3.5);
  v2("/a/b/", "cpu.max", "200000 100000\n");
  EXPECT_EQ(cpus(), 2);
  write("/sys/fs/cgroup/cpu/q/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu/q/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpus(), 2);
  write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
  write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpus(), 1.5);
}

}  // namespace
}  // namespace krafla
