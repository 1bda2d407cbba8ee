// SPDX-License-Identifier: Apache-2.0
#include "server/config/memory_limit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace rnnserve {
namespace {

class MemoryLimitTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Put(const std::string& file, const std::string& text) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text << "\n";
  }

  std::filesystem::path root_;
};

TEST_F(MemoryLimitTest, NoneWithoutControlGroups) {
  EXPECT_EQ(MemoryLimitOf(GroupsOf("memory", "", root_)), 0);
  EXPECT_EQ(MemoryLimitOf(GroupsOf("memory", "0::/a\n3:memory:/a\n", root_)), 0) << "no such files";
  EXPECT_EQ(MemoryLimitOf(GroupsOf("memory", "no colons at all\n::\n", root_)), 0);
}

TEST_F(MemoryLimitTest, TheLeastOfTheGroupsAround) {
  Put("memory.max", "max");
  Put("kube/memory.max", "3000");
  Put("kube/pod/memory.max", "2000");
  Put("kube/pod/box/memory.max", "max");
  Put("kube/pod/other/memory.max", "5");
  EXPECT_EQ(MemoryLimitOf(GroupsOf("memory", "0::/kube/pod/box\n", root_)), 2000);
  EXPECT_EQ(MemoryLimitOf(GroupsOf("memory", "0::/kube\n", root_)), 3000);
}

TEST_F(MemoryLimitTest, InAContainerTheGroupIsTheRoot) {
  Put("memory.max", "4096");
  EXPECT_EQ(MemoryLimitOf(GroupsOf("memory", "0::/\n", root_)), 4096);
  EXPECT_EQ(MemoryLimitOf(GroupsOf("memory", "0::/../../of/the/host\n", root_)), 4096);
}

TEST_F(MemoryLimitTest, ControlGroups1) {
  Put("memory/memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(MemoryLimitOf(GroupsOf("memory", "4:cpu:/\n3:memory:/docker/x\n", root_)), 0) << "their word for none";
  Put("memory/docker/x/memory.limit_in_bytes", "777");
  EXPECT_EQ(MemoryLimitOf(GroupsOf("memory", "4:cpu:/\n3:blkio,memory:/docker/x\n0::/\n", root_)), 777);
  EXPECT_EQ(MemoryLimitOf(GroupsOf("memory", "3:memoryless:/docker/x\n", root_)), 0);
}

TEST_F(MemoryLimitTest, WhatIsNoNumberIsNoLimit) {
  Put("memory.max", "many");
  EXPECT_EQ(MemoryLimitOf(GroupsOf("memory", "0::/\n", root_)), 0);
  Put("memory.max", "");
  EXPECT_EQ(MemoryLimitOf(GroupsOf("memory", "0::/\n", root_)), 0);
}

TEST(LeastMemoryTest, OfContainerAndMachineWhatIsKnown) {
  EXPECT_EQ(LeastMemory(3000, 2000), 2000);
  EXPECT_EQ(LeastMemory(2000, 3000), 2000);
  EXPECT_EQ(LeastMemory(0, 3000), 3000) << "no container's limit";
  EXPECT_EQ(LeastMemory(2000, 0), 2000);
  EXPECT_EQ(LeastMemory(0, 0), 0);
}

TEST(LeastMemoryTest, WithoutAContainerTheMachinesMemoryIsTheLimit) {
  const int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  EXPECT_GT(MemoryLimit(), 0);
  EXPECT_LE(MemoryLimit(), machine);
}

}  // namespace
}  // namespace rnnserve
