// SPDX-License-Identifier: Apache-2.0
// Unary calls wait here for memory before the server reads their messages. A call arrives with its headers; until the
// server reads the message, HTTP/2 stops the caller after 64 KiB. The line admits a call when there is memory for what
// such calls took lately (CallSizes). Other calls wait up to `max_wait`, callers in turns, and are then refused.
//
//   BodyLine::Reservation reservation;
//   absl::Status status = co_await line.Turn(reservation, caller, sizes);   // on the poller's thread, like all but
//   Parsed co_await the message; reservation.Came(bytes);
//   ...                                                               // reservation.Parsed() once it has been copied
//
// The memory of an admitted call that sends nothing is released after `max_kept`.
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
#include "base/completion.h"
#include "base/spare_nodes.h"
#include "base/steady_now.h"
#include "server/admission/call_sizes.h"
#include "server/admission/fair_bound.h"
#include "server/admission/memory_watch.h"

namespace rnnserve {

class BodyLine final : private CompletionTag {
 public:
  struct Options {
    // Bytes of messages that arrive or are being parsed, known or estimated.
    int64_t max_bytes = int64_t{1} << 30;
    // The largest message that may come.
    int64_t max_message_bytes = int64_t{64} << 20;
    // Calls in line.
    int64_t max_waiting = 1024;
    // Time in line.
    absl::Duration max_wait = absl::Milliseconds(100);
    // A reservation ends after this time without the whole message: the process holds already what has come of it.
    absl::Duration max_kept = absl::Seconds(1);
    // Whether the process has memory; outlives the line. Null: only the bounds above hold.
    MemoryWatch* memory = nullptr;
    // Called with the approximate sum of admitted bytes, before more may come than at the last call.
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

    // The message has come and has this size.
    void Came(int64_t bytes);
    // The message has been parsed and freed. The call's further memory is promised elsewhere. On any thread.
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
    // RESOURCE_EXHAUSTED: not admitted.
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

  // Admitted calls whose messages have not come.
  int64_t reading() const { return static_cast<int64_t>(reading_.size()); }
  // Calls that wait in line.
  int64_t waiting() const { return line_.used(); }

 private:
  void Complete(bool) override;

  // True: the call does not wait, because it has its reservation or was refused.
  bool Enter(Turning& turning);
  void Queue(Turning& turning);
  bool TakePlace(Turning& turning);
  void Leave(Reservation& reservation);
  // Admits the calls that have room now, and refuses calls that have waited too long.
  void Move();
  void RefuseLate(absl::Time now);
  void Resume(Turning& turning);
  void Settle(Entries::iterator entry);
  void ForgetSlow(absl::Time now);
  // Small messages arrive unasked, and do not count.
  static int64_t Counted(int64_t bytes);
  void SetMessage(Entry& entry, int64_t bytes);
  void Tell();
  void SetAlarm();

  const Options options_;
  grpc::CompletionQueue* const queue_;
  Entries reading_;  // the oldest first
  Entries settled_;  // read, or forgotten
  SpareNodes<Entries> entry_nodes_;
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
