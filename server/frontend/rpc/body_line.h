// SPDX-License-Identifier: Apache-2.0
// Lets calls in to be read. A call is told by its headers; until we ask for its message HTTP/2 holds the caller back
// after 64 KiB. It is asked for once there is memory for it, by what such calls took lately (CallSizes). Others wait in
// line for a moment, callers in turns, or are told to come again.
//
//   BodyLine::Reservation reservation;
//   absl::Status status = co_await line.Turn(reservation, caller, sizes);   // on the poller's thread, like all but
//   Parsed co_await the message; reservation.Came(bytes);
//   ...                                                               // reservation.Parsed() once it has been copied
//
// Room of a call that has been let in and sends nothing is released after `max_kept`.
#pragma once

#include <grpcpp/alarm.h>

#include <coroutine>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/batching/fair_bound.h"
#include "server/frontend/rpc/call_sizes.h"
#include "server/frontend/rpc/completion.h"
#include "server/telemetry/memory_watch.h"
#include "server/telemetry/steady_now.h"

namespace rnnserve {

class BodyLine final : private CompletionTag {
 public:
  struct Options {
    // Bytes of messages on their way in, or being parsed, as far as they can be known.
    int64_t max_bytes = int64_t{1} << 30;
    // The largest message that may come.
    int64_t max_message_bytes = int64_t{64} << 20;
    // Calls in line.
    int64_t max_waiting = 1024;
    // Time in line.
    absl::Duration max_wait = absl::Milliseconds(100);
    // A message that takes longer has no room kept for it any more: what has come of it the process has already.
    absl::Duration max_kept = absl::Seconds(1);
    // Whether the process has memory; outlives the line. Null: the above is all there is to it.
    MemoryWatch* memory = nullptr;
    // Told how many bytes have been let in, about, before more may come than it was told last.
    std::function<void(int64_t)> let_in = [](int64_t) {};
  };
  BodyLine(Options options, grpc::CompletionQueue* queue);
  BodyLine(const BodyLine&) = delete;
  BodyLine& operator=(const BodyLine&) = delete;

 private:
  struct Entry {
    uint64_t caller = 0;
    int64_t message = 0;  // of `bytes_`
    int64_t memory = 0;   // promised
    absl::Time since;
    bool is_settled = false;
  };
  using Entries = std::list<Entry>;

 public:
  class Reservation {
   public:
    Reservation() = default;
    ~Reservation() {
      if (line_ != nullptr) line_->Leave(*this);
    }
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;

    // So large is the message.
    void Came(int64_t bytes);
    // The message is gone, and what it was parsed into is there; what the call needs from now on is promised elsewhere.
    // On any thread.
    void Parsed();

   private:
    friend class BodyLine;
    BodyLine* line_ = nullptr;
    Entries::iterator entry_;
    int64_t bytes_ = 0;     // of the message, once it has come
    int64_t promised_ = 0;  // of memory, once it has come
  };

  class Turning {
   public:
    bool await_ready() { return line_.Enter(*this); }
    void await_suspend(std::coroutine_handle<> waiting) {
      waiting_ = waiting;
      line_.Queue(*this);
    }
    // RESOURCE_EXHAUSTED: not let in.
    absl::Status await_resume() { return std::move(status_); }

   private:
    friend class BodyLine;
    Turning(BodyLine& line, Reservation& reservation, uint64_t caller, const CallSizes& sizes)
        : line_(line), reservation_(reservation), caller_(caller), sizes_(sizes) {}
    BodyLine& line_;
    Reservation& reservation_;
    const uint64_t caller_;
    const CallSizes& sizes_;
    absl::Status status_;
    absl::Time since_;
    std::coroutine_handle<> waiting_;
  };
  Turning Turn(Reservation& reservation, uint64_t caller, const CallSizes& sizes) {
    return {*this, reservation, caller, sizes};
  }

  // Calls that have been let in and whose messages have not come.
  int64_t reading() const { return static_cast<int64_t>(reading_.size()); }
  // Calls that wait here.
  int64_t waiting() const { return line_.used(); }

 private:
  void Complete(bool) override;

  // Whether it need not wait: it has a reservation, or never gets one.
  bool Enter(Turning& turning);
  void Queue(Turning& turning);
  bool TakePlace(Turning& turning);
  void Leave(Reservation& reservation);
  // Lets in the calls that have room now, and refuses those that have waited too long.
  void Move();
  void RefuseLate(absl::Time now);
  void Resume(Turning& turning);
  void Settle(Entries::iterator entry);
  void ForgetSlow(absl::Time now);
  // Small ones come unasked, and do not count.
  static int64_t Counted(int64_t bytes);
  void SetMessage(Entry& entry, int64_t bytes);
  void Tell();
  void SetAlarm();

  const Options options_;
  grpc::CompletionQueue* const queue_;
  Entries reading_;  // the oldest first
  Entries settled_;  // read, or forgotten
  FairBound bytes_;
  FairBound line_;
  absl::flat_hash_map<uint64_t, std::deque<Turning*>> queues_;  // by caller; none is empty
  std::deque<uint64_t> turns_;                                  // the callers of queues_
  int64_t told_ = 0;
  bool is_moving_ = false;
  bool is_set_ = false;
  grpc::Alarm alarm_;
};

}  // namespace rnnserve
