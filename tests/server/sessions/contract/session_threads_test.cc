// SPDX-License-Identifier: Apache-2.0
// Many callers, engine threads and a sweep at once: what ThreadSanitizer is for, and no number is lost or doubled.
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

#include "server/sessions/contract/sweeper.h"
#include "tests/server/sessions/contract/session_fixture.h"

namespace rnnserve {
namespace {

// Commits leases on threads of its own.
class Engines {
 public:
  Engines() {
    for (int k = 0; k < 2; ++k) threads_.emplace_back([this] { Work(); });
  }
  ~Engines() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void Run(Lease lease) {
    {
      std::lock_guard lock(mutex_);
      queue_.push_back(std::move(lease));
    }
    wake_.notify_one();
  }

 private:
  void Work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      Lease lease = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      Change change;
      auto state = std::make_shared<SessionState>();
      const auto& before = static_cast<const CountedValue&>(*lease.state()->handles.at(0));
      state->handles.push_back(std::make_shared<CountedValue>(before.value + 1));
      change.state = std::move(state);
      change.position = lease.numbers().position + 1;
      change.reply = std::make_shared<TextReply>("");
      std::move(lease).Commit(std::move(change));
    }
  }

 public:
  struct CountedValue final : State {
    explicit CountedValue(uint64_t held) : value(held) {}
    const uint64_t value;
  };

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Lease> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

TEST(SessionThreads, NoNumberIsLostOrDoubled) {
  constexpr int kSessions = 4;
  constexpr uint64_t kNumbers = 300;
  SteadyClock clock;
  MemorySessions sessions({}, &clock);
  std::vector<SessionPtr> opened;
  for (int k = 0; k < kSessions; ++k) {
    OpenSpec spec;
    spec.subject = std::make_shared<SessionSubject>();
    auto state = std::make_shared<SessionState>();
    state->handles.push_back(std::make_shared<Engines::CountedValue>(0));
    spec.state = std::move(state);
    opened.push_back(sessions.Open(std::move(spec))->session);
  }
  {
    Engines engines;
    std::vector<std::thread> callers;
    for (int k = 0; k < 2 * kSessions; ++k) {  // two for each session, each taking it from the other
      callers.emplace_back([&, session = opened[static_cast<size_t>(k % kSessions)]] {
        while (session->view().numbers.last_applied < kNumbers) {
          std::mutex mutex;
          std::condition_variable told;
          bool done = false;
          Claim claim;
          claim.number = session->view().numbers.next_expected();
          claim.attachment = sessions.Attach();
          claim.granted = [&](Lease lease) { engines.Run(std::move(lease)); };
          claim.done = [&](Outcome) {
            std::lock_guard lock(mutex);
            done = true;
            told.notify_one();
          };
          sessions.Acquire(session, std::move(claim));
          std::unique_lock lock(mutex);
          told.wait(lock, [&] { return done; });
        }
      });
    }
    callers.emplace_back([&] {
      while (opened[0]->view().numbers.last_applied < kNumbers) {
        sessions.Sweep();
        ReadRequest read;
        read.checkpoint = "here";
        read.done = [](absl::StatusOr<Snapshot> snapshot) {
          const auto& value = static_cast<const Engines::CountedValue&>(*snapshot->state->handles.at(0)).value;
          EXPECT_EQ(value, snapshot->numbers.last_applied);
        };
        sessions.Read(opened[0], std::move(read));
        EXPECT_TRUE(sessions.List("", 10, "").ok());
      }
    });
    for (std::thread& caller : callers) caller.join();
  }
  for (const SessionPtr& session : opened) {
    const Session::View view = session->view();
    EXPECT_GE(view.numbers.last_applied, kNumbers);
    EXPECT_EQ(view.numbers.position, view.numbers.last_applied);
  }
}

// The sweep is an hour away, and what is before it in the queue computes until it has been told.
TEST(SessionThreads, AQueuedOperationIsToldThatItsTimeIsOver) {
  const SteadyClock clock;
  MemorySessions sessions({}, &clock);
  const Sweeper sweeper(&sessions, absl::Hours(1));
  OpenSpec spec;
  spec.subject = std::make_shared<SessionSubject>();
  spec.state = std::make_shared<SessionState>();
  const SessionPtr session = sessions.Open(std::move(spec))->session;
  std::optional<Lease> computing;
  Claim first;
  first.number = 1;
  first.granted = [&](Lease lease) { computing.emplace(std::move(lease)); };
  first.done = [](const Outcome&) {};
  sessions.Acquire(session, std::move(first));
  std::promise<absl::Status> told;
  Claim queued;
  queued.number = 2;
  queued.deadline = clock.Now() + absl::Milliseconds(1);
  queued.granted = [](const Lease&) { ADD_FAILURE() << "computed"; };
  queued.done = [&](const Outcome& outcome) { told.set_value(outcome.status); };
  sessions.Acquire(session, std::move(queued));
  EXPECT_TRUE(absl::IsDeadlineExceeded(told.get_future().get()));
  std::move(*computing).Fail(absl::CancelledError("the test is over"));
}

}  // namespace
}  // namespace rnnserve
