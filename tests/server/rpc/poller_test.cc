// SPDX-License-Identifier: Apache-2.0
// Coroutines that return to the poller thread from other threads.
#include "server/rpc/poller.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <memory>
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

  // Calls `there` on the poller thread.
  CallTask Visit(std::function<void()> there) {
    const Poller::QueueGuard guard(poller_);
    co_await Poller::Return(poller_);
    there();
  }
  // Until the poller thread sleeps, if the machine lets it: nothing of the tests wakes it then.
  void AwaitSleep() {
    std::latch ran(1);
    Visit([&] { ran.count_down(); });
    ran.wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }

  // Its work has its thread do what brings more of it.
  Poller::Work Work() {
    return {.waiting = [this] { return waiting_.load(); },
            .in_flight = [] { return 1; },
            .unfinished = [] { return 0; },
            .run =
                [this](int64_t, bool) {
                  ++runs_;
                  poller_.RunWork();
                }};
  }

  std::atomic<int> runs_ = 0;
  std::atomic<int64_t> waiting_ = 0;
  grpc::ServerBuilder builder_;
  Poller poller_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(PollerTest, WorkDoesNotRunWithinItself) {
  std::latch ran(1);
  int more = 0;
  Visit([&] {
    const int before = runs_;
    poller_.RunWork();
    EXPECT_EQ(runs_, before) << "there is none";
    waiting_ = 1;
    poller_.RunWork();
    waiting_ = 0;
    more = runs_ - before;
    ran.count_down();
  });
  ran.wait();
  EXPECT_EQ(more, 1);
}

// A visitor that has the work run brings others their turn, and is not called again.
TEST_F(PollerTest, WaitersHaveTheirTurnAfterTheWork) {
  std::vector<int> order;
  std::latch ran(2);
  Visit([&] {
    std::thread([&] {
      Visit([&] {
        order.push_back(1);
        ran.count_down();
      });
    }).join();
    waiting_ = 1;
    poller_.RunWork();
    waiting_ = 0;
    order.push_back(2);
    ran.count_down();
  });
  ran.wait();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_F(PollerTest, CoroutinesOfAllThreadsReturnToOne) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  std::set<std::thread::id> found;  // only the poller thread is to come there: no lock
  std::latch done(kThreads * kRounds);
  std::vector<std::thread> threads;
  for (int k = 0; k < kThreads; ++k) {
    threads.emplace_back([&, k] {
      for (int round = 0; round < kRounds; ++round) {
        Visit([&] {
          found.insert(std::this_thread::get_id());
          done.count_down();
        });
        // Lets the poller thread fall asleep now and then.
        if (round % 200 == 50 * k) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done.wait();
  EXPECT_EQ(found.size(), 1);
  EXPECT_FALSE(found.contains(std::this_thread::get_id()));
}

TEST_F(PollerTest, WaitersOfOneThreadGoOnInOrder) {
  std::vector<int> order;
  std::latch done(64);
  for (int k = 0; k < 64; ++k) {
    Visit([&, k] {
      order.push_back(k);
      done.count_down();
    });
  }
  done.wait();
  for (int k = 0; k < 64; ++k) EXPECT_EQ(order[k], k);
}

TEST_F(PollerTest, WakesOnceForWhatEndsTogether) {
  // The poller thread may be late to fall asleep: then nothing has to wake it.
  bool waited = false;
  for (int attempt = 0; attempt < 20 && !waited; ++attempt) {
    AwaitSleep();
    std::atomic<int> count = 0;
    std::latch done(3);
    {
      const JoinedSends joined;
      for (int k = 0; k < 3; ++k) {
        Visit([&] {
          count.fetch_add(1);
          done.count_down();
        });
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      waited = count == 0;
    }
    done.wait();
    EXPECT_EQ(count, 3);
  }
  EXPECT_TRUE(waited);
}

// The wake-up of one thread may come after all that it was for has ended by another's.
TEST_F(PollerTest, StopsWhileAWakeUpIsStillToCome) {
  AwaitSleep();
  std::latch done(1);
  std::thread stopping;
  {
    const JoinedSends joined;
    Visit([&] { done.count_down(); });
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
