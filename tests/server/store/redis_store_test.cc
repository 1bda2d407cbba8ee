// SPDX-License-Identifier: Apache-2.0
// The store against a real redis-server.
#include "server/store/redis_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>
#include <vector>

#include "server/telemetry/metrics.h"
#include "tests/server/store/redis_process.h"
#include "tests/server/store/store_calls.h"

namespace rnnserve {
namespace {

using testing::HasSubstr;

class RedisStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    RNNSERVE_SKIP_WITHOUT_REDIS();
    redis_ = std::make_unique<RedisProcess>();
    store_ = MakeStore(redis_->url());
  }

  std::unique_ptr<RedisProcess> redis_;
  std::unique_ptr<RedisStore> store_;
};

TEST_F(RedisStoreTest, WhatIsWrittenIsTaken) {
  const std::string records[] = {"", "one", std::string("\0\r\n$5\r\n\xff", 9), std::string(size_t{3} << 20, 'x')};
  for (const std::string& record : records) {
    ASSERT_EQ(Write(*store_, 1, 1, record), absl::OkStatus());
    EXPECT_TRUE(Take(*store_, 1, 1).value() == record);
  }
  EXPECT_TRUE(store_->IsReachable());
}

TEST_F(RedisStoreTest, ARecordThatIsNotThere) {
  const auto taken = Take(*store_, 2, 1);
  EXPECT_TRUE(absl::IsNotFound(taken.status())) << taken.status();
  EXPECT_EQ(redis_->AskText({"EXISTS", KeyText(2)}), "0");
}

TEST_F(RedisStoreTest, TheFormerOwnersWritesFail) {
  ASSERT_EQ(Write(*store_, 1, 1, "of one"), absl::OkStatus());
  EXPECT_EQ(Take(*store_, 1, 2).value(), "of one");
  const absl::Status late = Write(*store_, 1, 1, "late");
  EXPECT_TRUE(absl::IsAborted(late)) << late;
  EXPECT_EQ(Write(*store_, 1, 2, "of two"), absl::OkStatus());
  EXPECT_EQ(Take(*store_, 1, 2).value(), "of two");
}

TEST_F(RedisStoreTest, TakingAgainWithTheSameFenceChangesNothing) {
  ASSERT_EQ(Write(*store_, 1, 1, "record"), absl::OkStatus());
  ASSERT_EQ(Take(*store_, 1, 2).value(), "record");
  ASSERT_EQ(Write(*store_, 1, 2, "next"), absl::OkStatus());
  const std::string before = redis_->AskText({"GET", KeyText(1)});
  EXPECT_EQ(Take(*store_, 1, 2).value(), "next");
  EXPECT_EQ(redis_->AskText({"GET", KeyText(1)}), before);
}

TEST_F(RedisStoreTest, CreateDoesSoOnce) {
  SessionStore::WriteRequest first = WriteRequestOf(1, 1, "first");
  first.create = true;
  SessionStore::WriteRequest second = WriteRequestOf(1, 2, "second");
  second.create = true;
  EXPECT_EQ(Write(*store_, first), absl::OkStatus());
  EXPECT_EQ(Write(*store_, first), absl::OkStatus()) << "the same process repeats it";
  const absl::Status refused = Write(*store_, second);
  EXPECT_TRUE(absl::IsAborted(refused)) << refused;
  EXPECT_EQ(Take(*store_, 1, 1).value(), "first");
}

TEST_F(RedisStoreTest, TheLaterOwnerPrevailsWhereItsTakeoverIsLost) {
  ASSERT_EQ(Write(*store_, 1, 1, "of one"), absl::OkStatus());
  const std::string old = redis_->AskText({"GET", KeyText(1)});
  ASSERT_EQ(Take(*store_, 1, 2).value(), "of one");
  ASSERT_EQ(Write(*store_, 1, 2, "of two"), absl::OkStatus());
  redis_->AskText({"SET", KeyText(1), old});  // as a failover to a replica that lags behind
  EXPECT_EQ(Write(*store_, 1, 2, "of two"), absl::OkStatus());
  const absl::Status late = Write(*store_, 1, 1, "late");
  EXPECT_TRUE(absl::IsAborted(late)) << late;
  EXPECT_EQ(Read(*store_, 1).value().bytes, "of two");
}

TEST_F(RedisStoreTest, EachTakeoverIsLaterWhateverTheClocksSay) {
  constexpr uint64_t kLate = uint64_t{1} << 52;
  StoreFence behind = FenceOf(1), ahead = FenceOf(2);
  ahead.since = kLate;
  ASSERT_EQ(Write(*store_, 1, 3, "record"), absl::OkStatus());
  EXPECT_EQ(TakeStored(*store_, 1, ahead).value().fence, ahead);
  const StoreFence taken = TakeStored(*store_, 1, behind).value().fence;
  EXPECT_EQ(taken.since, kLate + 1);
  EXPECT_EQ(taken.owner, behind.owner);
  EXPECT_EQ(TakeStored(*store_, 1, behind).value().fence, taken) << "repeated";
}

TEST_F(RedisStoreTest, ReadingLeavesTheOwner) {
  EXPECT_TRUE(absl::IsNotFound(Read(*store_, 1).status()));
  ASSERT_EQ(Write(*store_, 1, 1, std::string("a\0b", 3)), absl::OkStatus());
  const StoredRecord read = Read(*store_, 1).value();
  EXPECT_EQ(read.bytes, std::string("a\0b", 3));
  EXPECT_EQ(read.fence, FenceOf(1));
  EXPECT_EQ(Write(*store_, 1, 1, "next"), absl::OkStatus());
}

TEST_F(RedisStoreTest, AWriteTellsWhetherThereWasARecord) {
  const auto was_missing = [&] {
    std::promise<bool> promise;
    store_->Write(WriteRequestOf(1, 1, "record"), [&](const absl::StatusOr<SessionStore::Written>& written) {
      promise.set_value(written.value().was_missing);
    });
    return promise.get_future().get();
  };
  EXPECT_TRUE(was_missing());
  EXPECT_FALSE(was_missing());
}

TEST_F(RedisStoreTest, SomethingElseUnderTheKeyIsNoRecord) {
  redis_->AskText({"SET", KeyText(1), "short"});
  EXPECT_EQ(Take(*store_, 1, 1).value(), "short");
  EXPECT_EQ(redis_->AskText({"GET", KeyText(1)}), "short") << "left alone";
  EXPECT_EQ(Write(*store_, 1, 1, "record"), absl::OkStatus());
  EXPECT_EQ(Take(*store_, 1, 1).value(), "record");
}

TEST_F(RedisStoreTest, AnotherTypeUnderTheKeyIsRefused) {
  redis_->AskText({"RPUSH", KeyText(1), "x"});
  for (const absl::Status& refused : {Write(*store_, 1, 1, "record"), Read(*store_, 1).status()}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(refused.ToString(), HasSubstr("WRONGTYPE"));
  }
  EXPECT_EQ(redis_->AskText({"LLEN", KeyText(1)}), "1") << "left alone";
  EXPECT_EQ(Write(*store_, 2, 1, "record"), absl::OkStatus());
}

TEST_F(RedisStoreTest, ARecordThatIsGoneIsWrittenAnew) {
  ASSERT_EQ(Write(*store_, 1, 1, "first"), absl::OkStatus());
  ASSERT_EQ(redis_->AskText({"DEL", KeyText(1)}), "1");
  EXPECT_EQ(Write(*store_, 1, 2, "second"), absl::OkStatus());
  EXPECT_EQ(Take(*store_, 1, 2).value(), "second");
}

TEST_F(RedisStoreTest, TheTimeToLiveIsThatOfTheLastWrite) {
  const auto left = [&] { return std::stoll(redis_->AskText({"PTTL", KeyText(1)})); };
  SessionStore::WriteRequest request = WriteRequestOf(1, 1, "record");
  request.ttl = absl::Hours(2);
  ASSERT_EQ(Write(*store_, request), absl::OkStatus());
  EXPECT_GT(left(), 3'600'000);
  EXPECT_LE(left(), 7'200'000);
  request.ttl = absl::Hours(1);
  ASSERT_EQ(Write(*store_, request), absl::OkStatus());
  EXPECT_GT(left(), 0);
  EXPECT_LE(left(), 3'600'000);
  ASSERT_EQ(Take(*store_, 1, 2).value(), "record");
  EXPECT_GT(left(), 0) << "taking it lets it expire as before";
  EXPECT_LE(left(), 3'600'000);
}

// As one whose bytes lay in a socket while the Redis was stopped.
TEST_F(RedisStoreTest, AnEarlierWriteDoesNotOverwriteALaterOne) {
  ASSERT_EQ(Write(*store_, 1, 1, "record"), absl::OkStatus());
  redis_->AskText({"SETRANGE", KeyText(1), "24", std::string("\0\0\0\0\0\1\0\0", 8)});  // of the 65,536th write
  const absl::Status early = Write(*store_, 1, 1, "early");
  EXPECT_TRUE(absl::IsUnavailable(early)) << early;
  EXPECT_THAT(early.ToString(), HasSubstr("a later write of this session came first"));
  EXPECT_EQ(Take(*store_, 1, 2).value(), "record");
  EXPECT_EQ(Write(*store_, 1, 2, "next"), absl::OkStatus()) << "a new owner counts its writes anew";
}

TEST_F(RedisStoreTest, ManySessionsFromManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kSessions = 250;
  constexpr int kRounds = 4;
  const auto write = [&](int thread) {
    for (int round = 0; round < kRounds; ++round) {
      std::vector<std::future<absl::Status>> written;
      for (int i = 0; i < kSessions; ++i) {
        const int session = thread * kSessions + i;
        written.push_back(StartWrite(*store_, WriteRequestOf(session, 1, absl::StrCat(session, " ", round))));
      }
      for (auto& one : written) EXPECT_EQ(one.get(), absl::OkStatus());
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(write, i);
  for (std::thread& thread : threads) thread.join();
  for (int session = 0; session < kThreads * kSessions; session += 97) {
    EXPECT_EQ(Take(*store_, session, 1).value(), absl::StrCat(session, " ", kRounds - 1));
  }
}

TEST_F(RedisStoreTest, TheQueueIsBoundedInRequestsAndBytes) {
  const StoreAddress address = ParseStoreAddress(redis_->url()).value();
  const auto few = MakeStore({.address = address, .most_requests = 1});
  const auto small = MakeStore({.address = address, .most_bytes = 1000});
  ASSERT_EQ(Write(*few, 1, 1, "x"), absl::OkStatus());
  ASSERT_EQ(Write(*small, 2, 1, "x"), absl::OkStatus());
  redis_->Signal(SIGSTOP);
  auto first = StartWrite(*few, WriteRequestOf(1, 1, "y"));
  const absl::Status second = Write(*few, 3, 1, "z");
  EXPECT_TRUE(absl::IsResourceExhausted(second)) << second;
  const absl::Status large = Write(*small, 2, 1, std::string(1000, 'x'));
  EXPECT_TRUE(absl::IsResourceExhausted(large)) << large;
  redis_->Signal(SIGCONT);
  EXPECT_EQ(first.get(), absl::OkStatus());
  EXPECT_EQ(Write(*few, 3, 1, "z"), absl::OkStatus());
}

TEST_F(RedisStoreTest, ItsEndEndsRequests) {
  ASSERT_EQ(Write(*store_, 1, 1, "x"), absl::OkStatus());
  redis_->Signal(SIGSTOP);
  auto waits = StartWrite(*store_, WriteRequestOf(1, 1, "y"));
  store_.reset();
  EXPECT_TRUE(absl::IsUnavailable(waits.get()));
  redis_->Signal(SIGCONT);
}

TEST_F(RedisStoreTest, Counts) {
  Metrics registry;
  StoreMetrics metrics(registry);
  const auto store = MakeStore({.address = ParseStoreAddress(redis_->url()).value(), .metrics = &metrics});
  ASSERT_EQ(Write(*store, 1, 2, std::string(1000, 'x')), absl::OkStatus());
  ASSERT_FALSE(Write(*store, 1, 1, "x").ok());
  ASSERT_FALSE(Take(*store, 2, 1).ok());
  std::map<std::string, double> counted;
  for (const MetricSample& sample : registry.Read("rnnserve_store_operations_total").samples) {
    counted[absl::StrCat(sample.labels[0], " ", sample.labels[1])] = sample.value;
  }
  EXPECT_EQ(counted["write ok"], 1);
  EXPECT_EQ(counted["write aborted"], 1);
  EXPECT_EQ(counted["take not_found"], 1);
  EXPECT_EQ(counted["take ok"], 0);
  EXPECT_EQ(metrics.queued->value(), 0);
  EXPECT_EQ(metrics.reachable->value(), 1);
  EXPECT_GT(metrics.sent->value(), 1000);
  EXPECT_GT(metrics.received->value(), 0);
}

}  // namespace
}  // namespace rnnserve
