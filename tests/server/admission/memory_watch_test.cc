// SPDX-License-Identifier: Apache-2.0
#include "server/admission/memory_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>
#include <vector>

namespace rnnserve {
namespace {

using testing::ElementsAre;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kLimit = 100 * kMiB;

struct Process {
  int64_t resident = 0;
  int looks = 0;
  std::vector<bool> relieved;
  int64_t kept = 0;  // given back when asked

  MemoryWatch Watch() {
    return MemoryWatch(
        kLimit,
        [this] {
          ++looks;
          return resident;
        },
        [this](bool in_need) {
          relieved.push_back(in_need);
          if (in_need) resident -= std::exchange(kept, 0);
        });
  }
};

absl::Time At(absl::Duration since) { return absl::UnixEpoch() + since; }

TEST(MemoryWatchTest, KeepsAPartOfTheLimitFree) {
  Process process;
  MemoryWatch watch = process.Watch();
  EXPECT_LT(watch.usable(), kLimit);
  EXPECT_GT(watch.usable(), kLimit / 2);
  EXPECT_TRUE(watch.HasRoom(watch.usable(), At(absl::Seconds(1))));
  EXPECT_FALSE(process.Watch().HasRoom(watch.usable() + 1, At(absl::Seconds(1))));
}

TEST(MemoryWatchTest, WhatWasLetInLatelyCountsBesides) {
  Process process;
  MemoryWatch watch = process.Watch();
  const int64_t half = watch.usable() / 2;
  EXPECT_TRUE(watch.HasRoom(half, At(absl::Seconds(1))));
  EXPECT_TRUE(watch.HasRoom(half, At(absl::Seconds(1))));
  EXPECT_FALSE(watch.HasRoom(1 * kMiB, At(absl::Seconds(1)))) << "as if both had been taken";
  EXPECT_FALSE(watch.HasRoom(1 * kMiB, At(absl::Seconds(1) + absl::Milliseconds(9)))) << "whatever a look shows";
  process.resident = half;  // only one was
  EXPECT_TRUE(watch.HasRoom(1 * kMiB, At(absl::Seconds(2))));
}

TEST(MemoryWatchTest, WhatIsPromisedCountsAsWell) {
  Process process;
  process.resident = 10 * kMiB;
  MemoryWatch watch = process.Watch();
  const int64_t free = watch.usable() - 10 * kMiB;
  watch.Promise(free);
  EXPECT_FALSE(watch.HasRoom(1, At(absl::Seconds(1))));
  watch.Promise(-1);
  EXPECT_TRUE(watch.HasRoom(1, At(absl::Seconds(1))));
}

TEST(MemoryWatchTest, WhatHasBeenTakenCountsOnce) {
  Process process;
  MemoryWatch watch = process.Watch();
  const int64_t half = watch.usable() / 2;
  EXPECT_TRUE(watch.TryPromise(half, At(absl::Seconds(1))));
  EXPECT_TRUE(watch.TryPromise(watch.usable() - half, At(absl::Seconds(1))));
  EXPECT_FALSE(watch.TryPromise(1, At(absl::Seconds(2)))) << "however long it is promised";
  process.resident = half;
  watch.Took(half);
  EXPECT_FALSE(watch.TryPromise(1, At(absl::Seconds(2)))) << "not before a look shows it, and then as what is there";
  EXPECT_FALSE(watch.TryPromise(1, At(absl::Seconds(3))));
  watch.Promise(-half);  // the other is not wanted any more
  EXPECT_TRUE(watch.TryPromise(half, At(absl::Seconds(4))));
  EXPECT_FALSE(watch.TryPromise(2, At(absl::Seconds(4))));
}

TEST(MemoryWatchTest, LooksSeldomWhileThereIsRoom) {
  Process process;
  MemoryWatch watch = process.Watch();
  for (int k = 0; k < 1000; ++k) EXPECT_TRUE(watch.HasRoom(1, At(absl::Microseconds(k))));
  EXPECT_EQ(process.looks, 1);
}

TEST(MemoryWatchTest, AsksForWhatIsKeptBeforeItRefuses) {
  Process process;
  process.resident = kLimit;
  process.kept = 50 * kMiB;
  MemoryWatch watch = process.Watch();
  EXPECT_TRUE(watch.HasRoom(1 * kMiB, At(absl::Seconds(1))));
  EXPECT_THAT(process.relieved, ElementsAre(true));
  process.resident = kLimit;
  EXPECT_FALSE(watch.HasRoom(1 * kMiB, At(absl::Seconds(2)))) << "nothing more is kept";
  EXPECT_THAT(process.relieved, ElementsAre(true, true));
  EXPECT_FALSE(watch.HasRoom(1 * kMiB, At(absl::Seconds(2) + absl::Milliseconds(1))));
  EXPECT_THAT(process.relieved, ElementsAre(true, true)) << "not each time";
}

TEST(MemoryWatchTest, TellsWhenTheNeedIsOver) {
  Process process;
  process.resident = kLimit;
  MemoryWatch watch = process.Watch();
  EXPECT_FALSE(watch.HasRoom(1, At(absl::Seconds(1))));
  process.resident = watch.usable() / 2 + 1;
  EXPECT_TRUE(watch.HasRoom(1, At(absl::Seconds(2))));
  EXPECT_THAT(process.relieved, ElementsAre(true)) << "not yet plenty";
  process.resident = watch.usable() / 2 - 1;
  EXPECT_TRUE(watch.HasRoom(1, At(absl::Seconds(3))));
  EXPECT_THAT(process.relieved, ElementsAre(true, false));
}

TEST(MemoryWatchTest, HugeNumbersDoNotWrap) {
  Process process;
  MemoryWatch watch = process.Watch();
  EXPECT_FALSE(watch.HasRoom(std::numeric_limits<int64_t>::max(), At(absl::Seconds(1))));
  EXPECT_THAT(MemoryWatch(1, [] { return int64_t{1} << 40; }).HasRoom(0, At(absl::Seconds(1))), false);
}

TEST(MemoryWatchTest, SeesThisProcess) {
  const int64_t before = AnonymousBytes();
  EXPECT_GT(before, 0);
  std::vector<char> taken(64 * kMiB, 'x');
  EXPECT_GT(AnonymousBytes(), before + 32 * kMiB) << taken.back();
}

}  // namespace
}  // namespace rnnserve
