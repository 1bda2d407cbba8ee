// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace rnnserve::rnnctl::bench {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A server that takes `service` for each call, any number at once. Time moves only while a thread waits.
class FakeSender final : public Sender {
 public:
  Time Now() override { return now; }
  std::chrono::nanoseconds CpuTime() override { return now / 4; }

  void Send(size_t slot, size_t request, Time due) override {
    EXPECT_TRUE(busy_.insert(slot).second) << "slot " << slot << " still waits for its answer";
    most_in_flight = std::max(most_in_flight, busy_.size());
    sent.push_back({now, request, due});
    answers_.emplace(now + service(now), slot);
  }

  bool Wait(Time until, bool, Answer& answer) override {
    if (answers_.empty() || answers_.begin()->first > until) {
      now = std::max(now, until);
      return false;
    }
    now = std::max(now, answers_.begin()->first);
    answer.slot = answers_.begin()->second;
    answer.code = code(now);
    answer.message = "told why";
    answer.queue = milliseconds(1);
    answer.compute = milliseconds(2);
    answer.has_server_times = true;
    answer.largest_batch = 3;
    answers_.erase(answers_.begin());
    busy_.erase(answer.slot);
    return true;
  }

  void Sleep(Time until) override {
    ++sleeps;
    now = std::max(now, until);
  }

  struct Sent {
    Time at;
    size_t request;
    Time due;
  };
  int sleeps = 0;
  Time now = seconds(100);
  std::function<Time(Time)> service = [](Time) { return milliseconds(10); };
  std::function<int(Time)> code = [](Time) { return 0; };
  std::vector<Sent> sent;
  size_t most_in_flight = 0;
  size_t in_flight() const { return busy_.size(); }

 private:
  std::multimap<Time, size_t> answers_;  // by the moment they come
  std::set<size_t> busy_;
};

class RunTest : public testing::Test {
 protected:
  Level Run() { return RunLevel(caller_, load_, stopping_, hooks_); }
  Time Since(Time start) const { return caller_.now - start; }

  FakeSender caller_;
  Load load_;
  Stopping stopping_;
  Hooks hooks_ = {{}, {}, [] { return size_t{5}; }};
};

TEST_F(RunTest, ClosedLoopKeepsEveryCallerBusy) {
  load_.concurrency = 4;
  stopping_.duration = seconds(2);
  const Level level = Run();
  EXPECT_EQ(level.ended, Ended::kDuration);
  EXPECT_EQ(caller_.most_in_flight, 4u);
  EXPECT_EQ(caller_.in_flight(), 0u);
  EXPECT_EQ(level.tally.span, seconds(2));
  EXPECT_NEAR(level.tally.CallsPerSecond(), 400, 4);  // 4 callers, 10 ms each
  EXPECT_EQ(level.tally.latency.max(), milliseconds(10));
  EXPECT_EQ(level.tally.latency.min(), milliseconds(10));
  EXPECT_EQ(level.tally.lag.max(), Time(0));
  EXPECT_EQ(level.tally.queue.max(), milliseconds(1));
  EXPECT_EQ(level.tally.compute.max(), milliseconds(2));
  EXPECT_EQ(level.tally.largest_batch, 3);
  EXPECT_EQ(level.tally.cpu, milliseconds(500));
  EXPECT_EQ(level.unsent, 0);
  EXPECT_EQ(caller_.sent[0].request, 5u);
}

TEST_F(RunTest, DropsWhatComesDuringWarmUp) {
  const Time start = caller_.now;
  caller_.service = [start](Time now) -> Time {
    return now < start + milliseconds(400) ? milliseconds(50) : milliseconds(1);
  };
  stopping_.duration = seconds(1);
  const Level level = Run();
  EXPECT_EQ(level.tally.latency.max(), milliseconds(1));
  EXPECT_EQ(level.tally.span, seconds(1));
}

TEST_F(RunTest, StopsWhenThreeWindowsAgreeAndReportsThose) {
  const Time start = caller_.now;
  caller_.service = [start](Time now) -> Time {
    return now < start + seconds(2) ? milliseconds(40) : milliseconds(10);
  };
  const Level level = Run();
  EXPECT_EQ(level.ended, Ended::kStable);
  EXPECT_EQ(level.windows, 5);  // 0.5 to 1.5 s slow, 1.5 to 2.5 s both, then three that agree
  EXPECT_EQ(level.tally.span, seconds(3));
  EXPECT_EQ(level.tally.latency.max(), milliseconds(10));
}

TEST_F(RunTest, GivesUpOnAServerThatNeverSettles) {
  bool slow = false;
  caller_.service = [&slow](Time) { return (slow = !slow) ? milliseconds(5) : milliseconds(10); };
  stopping_.stability = 1e-6;
  stopping_.max_windows = 7;
  stopping_.window = milliseconds(101);
  const Level level = Run();
  EXPECT_EQ(level.ended, Ended::kUnstable);
  EXPECT_EQ(level.windows, 7);
  EXPECT_NEAR(static_cast<double>(level.tally.good()), 7 * 101 / 7.5, 3);
}

TEST_F(RunTest, CountsExactlyTheRequestsAskedFor) {
  load_.concurrency = 8;
  stopping_.requests = 101;
  stopping_.warm_up = Time(0);
  const Level level = Run();
  EXPECT_EQ(level.ended, Ended::kRequests);
  EXPECT_EQ(level.tally.answered(), 101);
  EXPECT_EQ(caller_.in_flight(), 0u);
}

TEST_F(RunTest, AWindowGoesOnUntilItHoldsTenAnswers) {
  caller_.service = [](Time) { return milliseconds(300); };
  const Level level = Run();
  EXPECT_EQ(level.ended, Ended::kStable);
  EXPECT_EQ(level.tally.good(), 30);
  // From the end of warm-up at 0.5 s; every tenth answer comes at 3.3, 6.3 and 9.3 s.
  EXPECT_EQ(level.tally.span, milliseconds(8800));
}

TEST_F(RunTest, StopsAfterAWindowOfFailures) {
  caller_.code = [](Time) { return 14; };
  const Level level = Run();
  EXPECT_EQ(level.ended, Ended::kFailing);
  EXPECT_EQ(level.windows, 1);
  EXPECT_EQ(level.tally.good(), 0);
  ASSERT_TRUE(level.tally.errors.contains(14));
  EXPECT_EQ(level.tally.errors.at(14).first_message, "told why");
}

TEST_F(RunTest, FailuresAreCountedApartFromLatency) {
  int calls = 0;
  caller_.code = [&calls](Time) { return ++calls % 4 == 0 ? 8 : 0; };
  stopping_.requests = 400;
  stopping_.warm_up = Time(0);
  const Level level = Run();
  EXPECT_EQ(level.tally.good(), 300);
  EXPECT_EQ(level.tally.failed(), 100);
  EXPECT_EQ(level.tally.errors.at(8).count, 100);
}

TEST_F(RunTest, OpenLoopSendsAtTheRateWhateverTheAnswersTake) {
  load_.rate = 1000;
  caller_.service = [](Time) { return milliseconds(80); };
  stopping_.duration = seconds(4);
  const Level level = Run();
  // Poisson: 4,000 due, give or take five times its square root; each is answered, the last after the end.
  EXPECT_NEAR(static_cast<double>(level.tally.good()), 4000, 5 * 64);
  EXPECT_EQ(level.tally.latency.min(), milliseconds(80));
  EXPECT_EQ(level.tally.latency.max(), milliseconds(80));
  EXPECT_EQ(level.unsent, 0);
  EXPECT_GT(caller_.most_in_flight, 50u);
  EXPECT_GT(level.tally.late, 0);
  EXPECT_EQ(caller_.in_flight(), 0u);
}

// Coordinated omission: a closed loop would see one slow call; here all that were due meanwhile are charged.
TEST_F(RunTest, AStallIsChargedToAllWhoWereDueDuringIt) {
  load_.rate = 1000;
  load_.max_in_flight = 1;
  stopping_.duration = seconds(2);
  const Time stall = caller_.now + seconds(1);
  bool stalled = false;
  caller_.service = [&](Time now) -> Time {
    if (now < stall || stalled) return microseconds(1);
    stalled = true;
    return milliseconds(500);
  };
  const Level level = Run();
  // About 500 of 2,000 waited, from 0 to 500 ms.
  EXPECT_GT(level.tally.latency.Percentile(90), milliseconds(250));
  EXPECT_LT(level.tally.latency.Percentile(60), milliseconds(1));
  EXPECT_GE(level.tally.latency.max(), milliseconds(490));
  EXPECT_GE(level.tally.lag.max(), milliseconds(490));
}

// Neither sends before its time, and what waits for a tick is as late as it waits; answers that came are seen at a
// tick.
TEST_F(RunTest, WithATickItWakesOnlyThenAndCountsTheDelay) {
  load_.rate = 1000;
  load_.tick = milliseconds(5);
  stopping_.warm_up = Time(0);
  stopping_.duration = seconds(2);
  const Time start = caller_.now;
  caller_.service = [](Time) { return milliseconds(6); };
  const Level level = Run();
  EXPECT_EQ(caller_.sleeps, 400);
  EXPECT_NEAR(static_cast<double>(level.tally.good()), 2000, 150);
  for (const FakeSender::Sent& sent : caller_.sent) {
    EXPECT_EQ((sent.at - start) % milliseconds(5), Time(0));
    EXPECT_GE(sent.at, sent.due);
    EXPECT_LT(sent.at - sent.due, milliseconds(5));
  }
  EXPECT_GT(level.tally.lag.Percentile(80), milliseconds(3));
  // 6 ms of service seen after 10, and up to 5 before.
  EXPECT_GE(level.tally.latency.min(), milliseconds(6));
  EXPECT_GT(level.tally.latency.Percentile(50), milliseconds(11));
  EXPECT_LE(level.tally.latency.max(), milliseconds(15));
}

TEST_F(RunTest, TicksThatWereMissedAreNotMadeUpFor) {
  load_.rate = 100;
  load_.tick = milliseconds(5);
  stopping_.warm_up = Time(0);
  stopping_.duration = seconds(1);
  bool stalled = false;
  hooks_.next_request = [&] {
    if (!std::exchange(stalled, true)) caller_.now += milliseconds(502);  // the client itself
    return size_t{0};
  };
  const Level level = Run();
  EXPECT_LE(caller_.sleeps, 101);
  EXPECT_NEAR(static_cast<double>(level.tally.answered()), 100, 40);
  EXPECT_GT(level.tally.latency.max(), milliseconds(400));
}

TEST_F(RunTest, SaysWhatItCouldNotSend) {
  load_.rate = 1000;
  load_.max_in_flight = 2;
  caller_.service = [](Time) { return milliseconds(100); };  // 20 a second at most
  stopping_.duration = seconds(1);
  const Level level = Run();
  EXPECT_EQ(caller_.most_in_flight, 2u);
  EXPECT_NEAR(static_cast<double>(level.unsent), 1500 - 30, 250);
  EXPECT_NEAR(level.tally.CallsPerSecond(), 20, 3);
}

// The answer that ends the measurement frees a slot, which is no sign that there was room.
TEST_F(RunTest, SaysWhatItCouldNotSendWhenAnAnswerEndsIt) {
  load_.rate = 1000;
  load_.max_in_flight = 2;
  caller_.service = [](Time) { return milliseconds(100); };
  stopping_.warm_up = Time(0);
  stopping_.requests = 20;
  const Level level = Run();
  EXPECT_EQ(level.ended, Ended::kRequests);
  EXPECT_NEAR(static_cast<double>(level.unsent), 1000 - 22, 200);
}

TEST_F(RunTest, InterruptedItReportsWhatThereIs) {
  stopping_.duration = seconds(100);
  const Time stop = caller_.now + seconds(3);
  hooks_.interrupted = [&] { return caller_.now >= stop; };
  const Level level = Run();
  EXPECT_EQ(level.ended, Ended::kInterrupted);
  EXPECT_NEAR(static_cast<double>(level.tally.good()), 250, 2);
  EXPECT_LE(Since(stop), milliseconds(200));
}

TEST_F(RunTest, InterruptedDuringWarmUpItReportsNothing) {
  hooks_.interrupted = [] { return true; };
  const Level level = Run();
  EXPECT_EQ(level.ended, Ended::kInterrupted);
  EXPECT_EQ(level.tally.answered(), 0);
}

TEST_F(RunTest, TellsOfEachWindow) {
  std::vector<int64_t> windows;
  hooks_.progress = [&](int64_t window, const Tally& tally) {
    windows.push_back(window);
    EXPECT_NEAR(static_cast<double>(tally.good()), 100, 1);
  };
  stopping_.duration = seconds(2);
  Run();
  EXPECT_EQ(windows, (std::vector<int64_t>{1, 2}));
}

}  // namespace
}  // namespace rnnserve::rnnctl::bench
