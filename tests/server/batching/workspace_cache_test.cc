// SPDX-License-Identifier: Apache-2.0
#include "server/batching/workspace_cache.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/server/batching/fake_program.h"

namespace rnnserve {
namespace {

ProgramPtr MakeProgram() { return std::make_shared<FakeProgram>(); }

TEST(WorkspaceCache, KeepsTheWorkspacesOfTheProgramsUsedLast) {
  WorkspaceCache cache(2);
  const std::array programs = {MakeProgram(), MakeProgram(), MakeProgram()};
  const Workspace* const first = &cache.For(programs[0]);
  const Workspace* const second = &cache.For(programs[1]);
  EXPECT_NE(first, second);
  EXPECT_EQ(&cache.For(programs[0]), first);
  cache.For(programs[2]);
  EXPECT_EQ(&cache.For(programs[0]), first);
}

// Evicted or unloaded weights must not stay because a thread ran them once.
TEST(WorkspaceCache, KeepsNoProgramAlive) {
  WorkspaceCache cache(8);
  ProgramPtr program = MakeProgram();
  const std::weak_ptr<const Program> watch = program;
  cache.For(program);
  program.reset();
  EXPECT_TRUE(watch.expired());
  cache.For(MakeProgram());
}

TEST(WorkspaceCache, ForgetsWhatProgramsHaveLeftThatAreGone) {
  WorkspaceCache cache(8);
  const ProgramPtr stays = MakeProgram();
  Workspace* const kept = &cache.For(stays);
  cache.For(MakeProgram());
  cache.ForgetGone();
  EXPECT_EQ(&cache.For(stays), kept);
  EXPECT_FALSE(cache.empty());
  cache.Clear();
  EXPECT_TRUE(cache.empty());
}

}  // namespace
}  // namespace rnnserve
