// SPDX-License-Identifier: Apache-2.0
#include "base/seen_cpu.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <optional>
#include <thread>

namespace rnnserve {
namespace {

cpu_set_t Allowed() {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}

// Holds the calling thread where it is.
void Stay() {
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(static_cast<size_t>(sched_getcpu()), &here);
  ASSERT_EQ(sched_setaffinity(0, sizeof here, &here), 0);
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
  Stay();  // so that nothing but KeepOff moves it
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

TEST(SeenCpuTest, ASleeperWakesUpElsewhereAndMayComeBack) {
  const cpu_set_t allowed = Allowed();
  if (CPU_COUNT(&allowed) < 2) GTEST_SKIP() << "one CPU";
  std::atomic<bool> is_woken{false};
  std::optional<cpu_set_t> before;
  cpu_set_t restored = {};
  int woke_on = -1;
  std::thread sleeper([&] {
    is_woken.wait(false);
    woke_on = sched_getcpu();
    if (before) SeenCpu::Restore(*before);
    restored = Allowed();
  });
  Stay();
  SeenCpu seen;
  seen.Note();
  before = seen.KeepOff(sleeper.native_handle());
  is_woken = true;
  is_woken.notify_one();
  sleeper.join();
  EXPECT_NE(woke_on, sched_getcpu());
  EXPECT_EQ(sched_setaffinity(0, sizeof allowed, &allowed), 0);
  ASSERT_TRUE(before);
  EXPECT_TRUE(CPU_EQUAL(&*before, &allowed));
  EXPECT_TRUE(CPU_EQUAL(&restored, &allowed));
}

}  // namespace
}  // namespace rnnserve
