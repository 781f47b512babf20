// The quota of control groups of both versions, of the process's own group and of those above it.
#include "base/cpu_quota.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/scratch.h"

namespace heed {
namespace {

using Path = std::filesystem::path;

class CpuQuota : public ::testing::Test {
 protected:
  int quota(const std::string& groups) { return cpu_quota(scratch_.file("groups", groups), mount()); }
  void write(const Path& file, const std::string& text) {
    std::filesystem::create_directories((mount() / file).parent_path());
    std::ofstream(mount() / file) << text;
  }
  [[nodiscard]] Path mount() const { return scratch_ / "mount"; }

 private:
  test::Scratch scratch_;
};

TEST_F(CpuQuota, OfVersionTwoIsTheSmallestFromTheGroupToTheRoot) {
  write("cpu.max", "max 100000\n");
  EXPECT_EQ(quota("0::/\n"), 0);
  write("system.slice/heed.service/cpu.max", "max 100000\n");
  EXPECT_EQ(quota("0::/system.slice/heed.service\n"), 0);
  write("system.slice/cpu.max", "250000 100000\n");
  EXPECT_EQ(quota("0::/system.slice/heed.service\n"), 3);
  write("system.slice/heed.service/cpu.max", "50000 100000\n");
  EXPECT_EQ(quota("0::/system.slice/heed.service\n"), 1);
  EXPECT_EQ(quota("0::/system.slice\n"), 3);
}

TEST_F(CpuQuota, OfVersionOne) {
  const std::string groups = "5:memory:/docker/1\n4:cpuset:/\n3:cpu,cpuacct:/docker/1\n1:name=systemd:/docker/1\n";
  EXPECT_EQ(quota(groups), 0);
  write("cpu/docker/1/cpu.cfs_quota_us", "-1\n");
  write("cpu/docker/1/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(groups), 0);
  write("cpu/docker/1/cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(quota(groups), 2);
}

// A container sees its group as the root, while the list may have the name that it has outside.
TEST_F(CpuQuota, OfAContainer) {
  write("cpu.max", "150000 100000\n");
  EXPECT_EQ(quota("0::/../../docker-1.scope\n"), 2);
  EXPECT_EQ(quota("0::/system.slice/docker-1.scope\n"), 2);
}

TEST_F(CpuQuota, WhatCannotBeReadIsNone) {
  write("cpu.max", "100000\n");
  for (const char* groups : {"", "nonsense\n", "0:\n", "0::\n", "::/\n", "3:cpuacct:/\n"}) EXPECT_EQ(quota(groups), 0);
  write("cpu.max", "100000 0\n");
  EXPECT_EQ(quota("0::/\n"), 0);
  write("cpu.max", "");
  EXPECT_EQ(quota("0::/\n"), 0);
  write("cpu.max", "1e300 1\n");
  EXPECT_GT(quota("0::/\n"), 0);
  EXPECT_EQ(cpu_quota(mount() / "missing", mount()), 0);
}

}  // namespace
}  // namespace heed
