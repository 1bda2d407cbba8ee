// SPDX-License-Identifier: Apache-2.0
// Two servers' stores take sessions from each other while their Redis stops, drops connections and forgets scripts.
// What is taken is always the last acknowledged record, or a later one whose write got no answer.
#include <gtest/gtest.h>
#include <signal.h>

#include <array>
#include <cstring>
#include <random>
#include <set>

#include "server/store/redis_store.h"
#include "tests/server/store/redis_process.h"
#include "tests/server/store/store_calls.h"

namespace rnnserve {
namespace {

constexpr int kChaosSessions = 24;
constexpr int kChaosRounds = 150;

// One session, as its owners' callers know it.
struct Lane {
  size_t owner = 0;
  uint64_t fence = 0;
  bool owns = false;       // else a take comes next
  bool take_lost = false;  // a take without an answer may still be applied
  int last = 0;            // number of the latest write
  int acknowledged = 0;
  std::set<int> unanswered = {};  // since then
};

class Chaos {
 public:
  explicit Chaos(unsigned seed) : dice_(seed) {
    for (auto& store : stores_) {
      store = MakeStore({.address = ParseStoreAddress(redis_.url()).value(),
                         .connect_timeout = absl::Milliseconds(100),
                         .silence = absl::Milliseconds(20),
                         .backoff = {.first = absl::Milliseconds(1), .most = absl::Milliseconds(10)}});
    }
    for (int session = 0; session < kChaosSessions; ++session) {
      Lane& lane = lanes_[static_cast<size_t>(session)];
      EXPECT_EQ(Start(lane, session, kLong).get(), absl::OkStatus());
    }
  }

  void Round() {
    enum { kNothing, kStopped, kStops, kDrops, kForgets, kFaults };
    const auto fault = Draw(kFaults);
    const absl::Duration wait = fault == kStopped ? absl::Milliseconds(Draw(4) == 0 ? 40 : 5) : kLong;
    if (fault == kStopped) redis_.Signal(SIGSTOP);
    std::vector<std::future<absl::Status>> answers;
    for (int session = 0; session < kChaosSessions; ++session) {
      answers.push_back(Start(lanes_[static_cast<size_t>(session)], session, wait));
    }
    if (fault == kStops) redis_.Signal(SIGSTOP);
    if (fault == kDrops) redis_.AskText({"CLIENT", "KILL", "TYPE", "normal"});
    if (fault == kForgets) redis_.AskText({"SCRIPT", "FLUSH"});
    if (fault == kStops) redis_.Signal(SIGCONT);
    for (auto& answer : answers) {
      const absl::Status status = answer.get();
      EXPECT_TRUE(status.ok() || absl::IsUnavailable(status) || absl::IsAborted(status)) << status;
      ++counts_[status.code()];
    }
    if (fault == kStopped) redis_.Signal(SIGCONT);
  }

  void End() {
    for (int session = 0; session < kChaosSessions; ++session) {
      Lane& lane = lanes_[static_cast<size_t>(session)];
      lane.owns = false;
      EXPECT_EQ(Start(lane, session, kLong).get(), absl::OkStatus());
    }
    EXPECT_GT(counts_[absl::StatusCode::kOk], kChaosSessions * kChaosRounds / 2);
    EXPECT_GT(counts_[absl::StatusCode::kUnavailable], kChaosSessions);
  }

 private:
  unsigned Draw(unsigned below) { return std::uniform_int_distribution<unsigned>(0, below - 1)(dice_); }

  static StoreFence Fence(uint64_t number) {
    StoreFence fence = {.since = number};
    std::memcpy(fence.owner.data(), &number, sizeof number);
    return fence;
  }

  std::future<absl::Status> Start(Lane& lane, int session, absl::Duration wait) {
    auto promise = std::make_shared<std::promise<absl::Status>>();
    const absl::Time deadline = SteadyNow() + wait;
    if (lane.last > 0 && (!lane.owns || Draw(4) == 0)) {
      lane.owner = Draw(2);
      lane.fence = ++fences_;
      stores_[lane.owner]->Take(IdOf(session), Fence(lane.fence), deadline,
                                [&lane, promise](const absl::StatusOr<StoredRecord>& record) {
                                  OnTaken(lane, record);
                                  promise->set_value(record.status());
                                });
      return promise->get_future();
    }
    if (lane.last == 0) lane.fence = ++fences_;
    const int number = ++lane.last;
    SessionStore::WriteRequest request = {
        .id = IdOf(session), .fence = Fence(lane.fence), .record = std::to_string(number), .deadline = deadline};
    stores_[lane.owner]->Write(std::move(request),
                               [&lane, number, promise](const absl::StatusOr<SessionStore::Written>& written) {
                                 OnWritten(lane, number, written.status());
                                 promise->set_value(written.status());
                               });
    return promise->get_future();
  }

  static void OnTaken(Lane& lane, const absl::StatusOr<StoredRecord>& record) {
    lane.owns = record.ok();
    lane.take_lost = lane.take_lost || !record.ok();
    if (!record.ok()) return;
    const int number = std::stoi(record->bytes);
    EXPECT_TRUE(number == lane.acknowledged || lane.unanswered.contains(number))
        << "took " << number << ", acknowledged was " << lane.acknowledged;
    lane.acknowledged = number;
    lane.unanswered.clear();
  }

  static void OnWritten(Lane& lane, int number, const absl::Status& written) {
    lane.owns = !absl::IsAborted(written);
    if (written.ok()) {
      lane.acknowledged = number;
      lane.unanswered.clear();
      return;
    }
    EXPECT_TRUE(lane.owns || lane.take_lost) << "nothing else took the record: " << written;
    lane.unanswered.insert(number);
  }

  std::mt19937 dice_;
  RedisProcess redis_;
  uint64_t fences_ = 0;
  std::array<Lane, kChaosSessions> lanes_;
  std::map<absl::StatusCode, int> counts_;
  std::array<std::unique_ptr<RedisStore>, 2> stores_;
};

TEST(RedisChaosTest, NothingAcknowledgedIsLost) {
  RNNSERVE_SKIP_WITHOUT_REDIS();
  Chaos chaos(20261123);
  for (int round = 0; round < kChaosRounds; ++round) chaos.Round();
  chaos.End();
}

}  // namespace
}  // namespace rnnserve
