// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/schedule.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "client/rnnctl/bench/arrivals.h"

namespace rnnserve::rnnctl::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Time kStart = seconds(100);

Load SessionLoad(int64_t sessions, Time cadence, bool irregular = false) {
  Load load;
  load.concurrency = sessions;
  load.sessions = true;
  load.cadence = cadence;
  load.irregular = irregular;
  return load;
}

TEST(ScheduleTest, RegularChunksComeOncePerCadenceInEachSession) {
  const auto schedule = MakeSchedule(SessionLoad(50, milliseconds(32)), kStart);
  std::map<size_t, std::vector<Time>> due;
  for (Time now = kStart; now < kStart + milliseconds(320); now = *schedule->wake()) {
    while (const auto next = schedule->Next(now)) {
      EXPECT_LE(next->at, now);
      due[next->slot].push_back(next->at);
      schedule->Free(next->slot);
    }
  }
  ASSERT_EQ(due.size(), 50u);
  std::set<Time> phases;
  for (const auto& [slot, times] : due) {
    ASSERT_EQ(times.size(), 10u) << slot;
    phases.insert(times[0] - kStart);
    for (size_t k = 1; k < times.size(); ++k) EXPECT_EQ(times[k] - times[k - 1], milliseconds(32));
  }
  EXPECT_GT(phases.size(), 45u);  // not all at once
}

TEST(ScheduleTest, IrregularChunksHaveTheRate) {
  const auto chunks = MakeIrregularChunks(10, milliseconds(10), 3, kStart);
  std::map<size_t, int> count;
  int all = 0;
  for (; chunks->next().at < kStart + seconds(20); chunks->Advance(), ++all) ++count[chunks->next().slot];
  // 20,000 are expected, 2,000 in each session; five times the square root of it.
  EXPECT_NEAR(all, 20000, 5 * 142);
  ASSERT_EQ(count.size(), 10u);
  for (const auto& [slot, of_slot] : count) EXPECT_NEAR(of_slot, 2000, 5 * 45) << slot;
}

TEST(ScheduleTest, AChunkWaitsForTheOneBeforeAndKeepsItsMoment) {
  const auto schedule = MakeSchedule(SessionLoad(1, milliseconds(10)), kStart);
  const Time first = *schedule->wake();
  ASSERT_TRUE(schedule->Next(first));
  EXPECT_FALSE(schedule->Next(first + milliseconds(25)));  // two more are due, and the first is not answered
  EXPECT_EQ(schedule->Unsent(first + milliseconds(25)), 2);
  schedule->Free(0);
  const auto second = schedule->Next(first + milliseconds(26));
  ASSERT_TRUE(second);
  EXPECT_EQ(second->at, first + milliseconds(10));
  EXPECT_FALSE(schedule->Next(first + milliseconds(26)));
  schedule->Free(0);
  EXPECT_EQ(schedule->Next(first + milliseconds(27))->at, first + milliseconds(20));
  schedule->Free(0);
  EXPECT_FALSE(schedule->Next(first + milliseconds(28)));
  EXPECT_EQ(*schedule->wake(), first + milliseconds(30));
  EXPECT_EQ(schedule->Unsent(first + milliseconds(28)), 0);
}

TEST(ScheduleTest, AClosedLoopOfSessionsSendsAsSoonAsTheyAreFree) {
  const auto schedule = MakeSchedule(SessionLoad(3, Time(0)), kStart);
  std::set<size_t> slots;
  for (int k = 0; k < 3; ++k) slots.insert(schedule->Next(kStart)->slot);
  EXPECT_EQ(slots, (std::set<size_t>{0, 1, 2}));
  EXPECT_FALSE(schedule->Next(kStart));
  EXPECT_FALSE(schedule->wake());
  schedule->Free(1);
  EXPECT_EQ(schedule->Next(kStart + seconds(1))->slot, 1u);
}

}  // namespace
}  // namespace rnnserve::rnnctl::bench
