// SPDX-License-Identifier: Apache-2.0
#include "base/seen_cpu.h"

#include <gtest/gtest.h>
#include <sched.h>

namespace rnnserve {
namespace {

cpu_set_t Allowed() {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}

TEST(SeenCpuTest, BeforeAnyNoteThereIsNothingToKeepOff) { EXPECT_FALSE(SeenCpu().KeepOff()); }

TEST(SeenCpuTest, WhatIsForgottenKeepsNoThreadOff) {
  SeenCpu seen;
  seen.Note();
  seen.Forget();
  EXPECT_FALSE(seen.KeepOff());
}

TEST(SeenCpuTest, LeavesTheCpuAndMayComeBack) {
  const cpu_set_t allowed = Allowed();
  if (CPU_COUNT(&allowed) < 2) GTEST_SKIP() << "one CPU";
  // Held where it is, so that nothing but KeepOff moves it.
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(static_cast<size_t>(sched_getcpu()), &here);
  ASSERT_EQ(sched_setaffinity(0, sizeof here, &here), 0);
  SeenCpu seen;
  seen.Note();
  EXPECT_FALSE(seen.KeepOff()) << "this thread may run nowhere else";

  ASSERT_EQ(sched_setaffinity(0, sizeof allowed, &allowed), 0);
  int moves = 0;
  for (int attempt = 0; attempt < 100 && moves == 0; ++attempt) {
    seen.Note();
    moves += seen.KeepOff();
  }
  EXPECT_EQ(moves, 1);
  const cpu_set_t after = Allowed();
  EXPECT_TRUE(CPU_EQUAL(&after, &allowed));
}

}  // namespace
}  // namespace rnnserve
