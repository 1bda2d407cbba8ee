// SPDX-License-Identifier: Apache-2.0
// Coroutines that return to the poller thread from other threads.
#include "server/rpc/poller.h"

#include <gtest/gtest.h>

#include <latch>
#include <set>
#include <thread>
#include <vector>

#include "base/joined_sends.h"

namespace rnnserve {
namespace {

class PollerTest : public testing::Test {
 protected:
  PollerTest() : poller_(builder_.AddCompletionQueue(), Work(), absl::ZeroDuration()) {
    server_ = builder_.BuildAndStart();
    poller_.Start();
  }
  ~PollerTest() override {
    server_->Shutdown();
    poller_.Stop();
  }

  // Until the poller thread sleeps: nothing of the tests wakes it then.
  void AwaitSleep() {
    std::latch ran(1);
    const auto visit = [&]() -> CallTask {
      const Poller::QueueGuard guard(poller_);
      co_await Poller::Return(poller_);
      ran.count_down();
    };
    visit();
    ran.wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }

  static Poller::Work Work() {
    return {[] { return 0; }, [] { return true; }, [](bool) {}, [] { return false; }};
  }

  grpc::ServerBuilder builder_;
  Poller poller_;
  std::unique_ptr<grpc::Server> server_;
};

// Notes the thread where it is after it has returned.
CallTask ReturnAndCount(Poller& poller, std::set<std::thread::id>& threads, std::atomic<int>& count, std::latch& done) {
  const Poller::QueueGuard guard(poller);
  co_await Poller::Return(poller);
  threads.insert(std::this_thread::get_id());  // only the poller thread comes here: no lock
  co_await Poller::Return(poller);             // at once, it is there
  count.fetch_add(1);
  done.count_down();
}

TEST_F(PollerTest, CoroutinesOfAllThreadsReturnToOne) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  std::set<std::thread::id> found;
  std::atomic<int> count = 0;
  std::latch done(kThreads * kRounds);
  std::vector<std::thread> threads;
  for (int k = 0; k < kThreads; ++k) {
    threads.emplace_back([&, k] {
      for (int round = 0; round < kRounds; ++round) {
        ReturnAndCount(poller_, found, count, done);
        // Lets the poller thread fall asleep now and then.
        if (round % 200 == 50 * k) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done.wait();
  EXPECT_EQ(count, kThreads * kRounds);
  EXPECT_EQ(found.size(), 1);
  EXPECT_FALSE(found.contains(std::this_thread::get_id()));
}

TEST_F(PollerTest, WaitersOfOneThreadGoOnInOrder) {
  std::vector<int> order;
  std::latch done(64);
  const auto add = [&](int k) -> CallTask {
    const Poller::QueueGuard guard(poller_);
    co_await Poller::Return(poller_);
    order.push_back(k);
    done.count_down();
  };
  for (int k = 0; k < 64; ++k) add(k);
  done.wait();
  for (int k = 0; k < 64; ++k) EXPECT_EQ(order[k], k);
}

TEST_F(PollerTest, WakesOnceForWhatEndsTogether) {
  std::atomic<int> count = 0;
  std::latch done(3);
  const auto add = [&]() -> CallTask {
    const Poller::QueueGuard guard(poller_);
    co_await Poller::Return(poller_);
    count.fetch_add(1);
    done.count_down();
  };
  AwaitSleep();
  {
    const JoinedSends joined;
    for (int k = 0; k < 3; ++k) add();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(count, 0);
  }
  done.wait();
  EXPECT_EQ(count, 3);
}

// The wake-up of one thread may come after all that it was for has ended by another's.
TEST_F(PollerTest, StopsWhileAWakeUpIsStillToCome) {
  std::latch done(1);
  const auto add = [&]() -> CallTask {
    const Poller::QueueGuard guard(poller_);
    co_await Poller::Return(poller_);
    done.count_down();
  };
  AwaitSleep();
  std::thread stopping;
  {
    const JoinedSends joined;
    add();
    stopping = std::thread([&] {
      server_->Shutdown();
      poller_.Stop();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  done.wait();
  stopping.join();
}

}  // namespace
}  // namespace rnnserve
