// SPDX-License-Identifier: Apache-2.0
// The thread that polls one completion queue and resumes the coroutines that wait on it. It must never block. It runs
// the work that coroutines have collected when the queue is empty, when few callers' calls are all there (mostly), and
// after a bounded number of events. Answers of streams leave on it, and those of calls while it has time for them:
// where several threads use a connection, gRPC lets them wait for each other and hands work to threads of its own.
//
//   Poller poller(builder.AddCompletionQueue(), ...);     // before the server is built
//   poller.Start();                                  // after
//   ...
//   server->Shutdown(...);                           // ends posted slots
//   poller.Stop();                                   // waits for the last QueueGuard, then for the thread
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "base/completion.h"
#include "base/mutex.h"
#include "server/rpc/busy_poll.h"

namespace rnnserve {

class Poller {
 public:
  // Called on the poller's thread, or one that collects beside it; `run` takes a moment at most.
  struct Work {
    // How many calls and operations have added to it.
    std::function<int64_t()> waiting;
    // How many calls are in flight: those that have added to it, are being received, or run elsewhere. Only while there
    // are none does the thread busy-poll before it sleeps (BusyPoll). Otherwise workers may need its CPU.
    std::function<int64_t()> in_flight;
    // How many calls and operations want to be computed: those that wait for the work, and those that workers have.
    std::function<int64_t()> unfinished;
    // `callers`: how many call (BusyPoll::callers). `collects`: whether its thread does from then on.
    std::function<void(int64_t callers, bool collects)> run;
  };

  // `max_busy_poll`: see BusyPoll; zero: the thread sleeps at once.
  Poller(std::unique_ptr<grpc::ServerCompletionQueue> queue, Work work, absl::Duration max_busy_poll)
      : queue_(std::move(queue)), work_(std::move(work)), busy_poll_(max_busy_poll) {}
  ~Poller();
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  void Start();
  void Stop();

  // Whether the thread waits for events, or began with its present one less than `patience` ago.
  bool IsResponsive(absl::Duration patience) const;

  grpc::ServerCompletionQueue* queue() { return queue_.get(); }

  // Runs what this thread has collected if it has, and on the poller thread has answers leave: also in the middle of a
  // turn. Does nothing while it runs on this thread already.
  void RunWork() noexcept;
  // On a thread beside the poller thread: it collects from now on; or runs what it has collected, and collects no more.
  void CollectBeside(bool collects) noexcept;

  // Whether this is the poller thread.
  bool is_this_thread() const;
  // Whether an answer leaves from this thread: it is the poller thread, or that one has not gone to sleep for a while.
  // Then it has more to do than time, and the help of other threads is worth what they wait for each other; or it
  // sleeps long, and no thread sends beside this one.
  bool MayAnswerHere() const;

  // A tag that may wait for the poller thread without an event of gRPC's.
  class Waiter : public CompletionTag {
   protected:
    ~Waiter() = default;

   private:
    friend class Poller;
    Waiter* next_ = nullptr;
  };
  // Calls the waiter's Complete on the poller thread, at the end of its turn at the latest. From any thread, while a
  // QueueGuard is held. A waiter waits once at a time.
  void Enqueue(Waiter* waiter);

  // co_await Poller::Return(poller): goes on on the poller thread.
  class Return final : private Waiter {
   public:
    explicit Return(Poller& poller) : poller_(poller) {}
    bool await_ready() const noexcept { return poller_.is_this_thread(); }
    void await_suspend(std::coroutine_handle<> waiting) {
      waiting_ = waiting;
      poller_.Enqueue(this);
    }
    void await_resume() const noexcept {}

   private:
    void Complete(bool) override { waiting_.resume(); }

    Poller& poller_;
    std::coroutine_handle<> waiting_;
  };

  // Held by each coroutine that uses the queue: a queue must not be shut down while operations may still be started.
  class QueueGuard {
   public:
    explicit QueueGuard(Poller& poller);
    ~QueueGuard();
    QueueGuard(const QueueGuard&) = delete;
    QueueGuard& operator=(const QueueGuard&) = delete;

   private:
    Poller& poller_;
  };

 private:
  // The event that wakes the thread.
  class Wake final : public CompletionTag {
   public:
    explicit Wake(Poller& poller) : poller_(poller) {}
    void Start();

   private:
    void Complete(bool ok) override;

    Poller& poller_;
    StartMutex starting_;
    grpc::Alarm alarm_;
  };

  void Poll();
  void CompleteWaiters();
  // From when on Enqueue wakes the thread; false: there are waiters already.
  bool BeginSleep();
  void Release() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The next event; TIMEOUT if there is none and work or a waiter waits.
  grpc::CompletionQueue::NextStatus Next(void** tag, bool* ok);
  // The next event that has come.
  grpc::CompletionQueue::NextStatus Look(void** tag, bool* ok);
  // Waits for the next event without limit; busy-polls for `window` before it sleeps.
  grpc::CompletionQueue::NextStatus Await(absl::Duration window, int64_t began_ns, void** tag, bool* ok);

  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  const Work work_;
  BusyPoll busy_poll_;
  Mutex mutex_;
  CondVar released_;
  int64_t guards_ ABSL_GUARDED_BY(mutex_) = 0;
  Waiter* first_waiter_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Waiter* last_waiter_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool asleep_ ABSL_GUARDED_BY(mutex_) = false;
  bool waking_ ABSL_GUARDED_BY(mutex_) = false;  // holds a guard
  std::atomic<bool> has_waiters_ = false;
  Wake wake_{*this};
  std::atomic<int64_t> busy_since_ns_ = 0;     // 0: waits
  std::atomic<int64_t> went_to_sleep_ns_ = 0;  // last

  std::thread thread_;
};

}  // namespace rnnserve
