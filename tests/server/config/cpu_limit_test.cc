// SPDX-License-Identifier: Apache-2.0
#include "server/config/cpu_limit.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace rnnserve {
namespace {

class CpuLimitTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Put(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }
  std::optional<double> Quota(const std::string& groups) { return CpuQuotaOf(GroupsOf("cpu", groups, root_)); }

  std::filesystem::path root_;
};

TEST_F(CpuLimitTest, ControlGroups2) {
  EXPECT_EQ(Quota("0::/\n"), std::nullopt) << "no such file";
  Put("cpu.max", "max 100000");
  EXPECT_EQ(Quota("0::/\n"), std::nullopt);
  Put("cpu.max", "150000 100000");
  EXPECT_EQ(Quota("0::/\n"), 1.5);
  EXPECT_EQ(Quota("0::/../../of/the/host\n"), 1.5) << "in a container the group is the root";
}

TEST_F(CpuLimitTest, TheLeastOfTheGroupsAround) {
  Put("kube/cpu.max", "300000 100000");
  Put("kube/pod/cpu.max", "20000 10000");
  Put("kube/pod/box/cpu.max", "max 100000");
  Put("kube/pod/other/cpu.max", "1000 100000");
  EXPECT_EQ(Quota("0::/kube/pod/box\n"), 2);
  EXPECT_EQ(Quota("0::/kube\n"), 3);
}

TEST_F(CpuLimitTest, ControlGroups1) {
  Put("cpu/cpu.cfs_quota_us", "-1");
  Put("cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(Quota("4:cpu,cpuacct:/docker/x\n"), std::nullopt);
  Put("cpu/docker/x/cpu.cfs_quota_us", "50000");
  Put("cpu/docker/x/cpu.cfs_period_us", "100000");
  EXPECT_EQ(Quota("5:cpuset:/docker/x\n4:cpu,cpuacct:/docker/x\n0::/\n"), 0.5);
  EXPECT_EQ(Quota("5:cpuset:/docker/x\n"), std::nullopt) << "another controller";
}

TEST_F(CpuLimitTest, WhatIsNoQuotaIsNone) {
  for (const char* text :
       {"", "100000", "0 100000", "100000 0", "-5 100000", "many 100000", "99999999999999999999 1"}) {
    Put("cpu.max", text);
    EXPECT_EQ(Quota("0::/\n"), std::nullopt) << text;
  }
}

TEST_F(CpuLimitTest, TheLesserOfBothCounts) {
  EXPECT_EQ(CpusFor(4, std::nullopt).count, 4);
  EXPECT_EQ(CpusFor(4, 8).count, 4);
  EXPECT_EQ(CpusFor(4, 1).count, 1);
  EXPECT_EQ(CpusFor(4, 1.5).count, 2) << "rounded up";
  EXPECT_EQ(CpusFor(4, 0.01).count, 1);
  EXPECT_EQ(CpusFor(0, std::nullopt).count, 1);
  EXPECT_EQ(CpusFor(4, 1.5).reason, "the container's quota of 1.5 CPUs");
}

}  // namespace
}  // namespace rnnserve
