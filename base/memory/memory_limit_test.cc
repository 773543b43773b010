#include "base/memory/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace soapstone {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class MemoryLimitTest : public ::testing::Test {
 protected:
  MemoryLimitTest() { Write("/proc/meminfo", "MemFree: 1 kB\nMemTotal:  1048576 kB\n"); }
  ~MemoryLimitTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  std::string root_ = testing::TempDir() + "memory_limit" + std::to_string(getpid());
};

TEST_F(MemoryLimitTest, IsTheMachinesWhereNoGroupHasLess) {
  EXPECT_EQ(MemoryLimitUnder(root_), 1024 * kMiB);
  Write("/proc/self/cgroup", "0::/a/b\n");
  Write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(MemoryLimitUnder(root_), 1024 * kMiB);
}

TEST_F(MemoryLimitTest, IsTheLeastOfTheGroupAndOfThoseAboveIt) {
  Write("/proc/self/cgroup", "0::/a/b\n");
  Write("/sys/fs/cgroup/a/b/memory.max", std::to_string(500 * kMiB));
  EXPECT_EQ(MemoryLimitUnder(root_), 500 * kMiB);
  Write("/sys/fs/cgroup/a/memory.max", std::to_string(300 * kMiB));
  EXPECT_EQ(MemoryLimitUnder(root_), 300 * kMiB);
  Write("/sys/fs/cgroup/memory.max", std::to_string(200 * kMiB));
  EXPECT_EQ(MemoryLimitUnder(root_), 200 * kMiB);
}

TEST_F(MemoryLimitTest, OfVersion1TheGroupOfMemoryCounts) {
  Write("/proc/self/cgroup", "9:name=systemd:/\n5:cpu:/c\n4:memory:/a\n0::/\n");
  Write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", std::to_string(700 * kMiB));
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(MemoryLimitUnder(root_), 700 * kMiB);
}

TEST_F(MemoryLimitTest, WhereNothingTellsItIsAFixedNumber) {
  std::filesystem::remove_all(root_);
  EXPECT_EQ(MemoryLimitUnder(root_), 4096 * kMiB);
  EXPECT_EQ(AvailableMemoryUnder(root_), UINT64_MAX);
}

TEST_F(MemoryLimitTest, WhatIsFreeIsTheLeastThatTheMachineAndItsGroupsLeave) {
  Write("/proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable:  819200 kB\n");
  EXPECT_EQ(AvailableMemoryUnder(root_), 800 * kMiB);
  Write("/proc/self/cgroup", "0::/a/b\n");
  Write("/sys/fs/cgroup/a/b/memory.max", std::to_string(900 * kMiB));
  Write("/sys/fs/cgroup/a/b/memory.current", std::to_string(200 * kMiB));
  EXPECT_EQ(AvailableMemoryUnder(root_), 700 * kMiB);
  Write("/sys/fs/cgroup/a/b/memory.stat", "anon 5\ninactive_file " + std::to_string(50 * kMiB) +
                                              "\nactive_file " + std::to_string(30 * kMiB));
  EXPECT_EQ(AvailableMemoryUnder(root_), 780 * kMiB);
  Write("/sys/fs/cgroup/a/memory.max", std::to_string(300 * kMiB));
  Write("/sys/fs/cgroup/a/memory.current", std::to_string(310 * kMiB));
  EXPECT_EQ(AvailableMemoryUnder(root_), 0);
}

TEST_F(MemoryLimitTest, OfVersion1WhatTheGroupLeavesCountsToo) {
  Write("/proc/meminfo", "MemTotal: 1048576 kB\nMemAvailable:  819200 kB\n");
  Write("/proc/self/cgroup", "4:memory:/a\n0::/\n");
  Write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", std::to_string(300 * kMiB));
  Write("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", std::to_string(120 * kMiB));
  Write("/sys/fs/cgroup/memory/a/memory.stat",
        "inactive_file 7\ntotal_inactive_file " + std::to_string(20 * kMiB) +
            "\ntotal_active_file " + std::to_string(30 * kMiB));
  EXPECT_EQ(AvailableMemoryUnder(root_), 230 * kMiB);
}

TEST(MemoryLimit, IsWhatThisMachineHasAtMost) {
  const auto machine =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  EXPECT_GE(MemoryLimit(), 64 * kMiB);
  EXPECT_LE(MemoryLimit(), machine + kMiB);
}

}  // namespace
}  // namespace soapstone
