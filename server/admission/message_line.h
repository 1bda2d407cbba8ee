// SPDX-License-Identifier: Apache-2.0
// Unary calls, and streams with large messages, wait here for memory before the server reads their messages. HTTP/2
// stops a caller after 64 KiB until the server reads, or a connection after more where memory is ample
// (GrpcServer::Options::adapts_windows). The line admits a call or a stream when there is memory for what
// its message is expected to take (CallSizes); others wait, callers in turns.
//
//   Reservation reservation(line, sizes);                     // one per call or stream
//   absl::Status status = co_await reservation.Turn(caller);
//   co_await the message;
//   status = reservation.Came(bytes, ...);                    // of a stream: reservation.MessageCame(bytes)
//   ...
//   reservation.Parsed();                                     // the message has been copied and freed
//
// The server has one line for calls and one for streams:
//
//                         calls                             streams
//   expects               what such calls took lately       four times the stream's last messages
//   messages <= 64 KiB    need memory                       pass without a place
//   waits                 max_wait, then RESOURCE_EXHAUSTED until there is room
//   holds its bytes       until the call ends               until its message is parsed
//
// The memory of an admitted call or stream that sends nothing is released after `max_kept`. Thread-safe; one coroutine
// uses a reservation. Calls end on the poller thread, streams on any.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <coroutine>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/completion.h"
#include "base/mutex.h"
#include "base/recycled.h"
#include "server/admission/call_admission.h"
#include "server/admission/call_sizes.h"
#include "server/admission/fair_bound.h"
#include "server/admission/memory_watch.h"

namespace rnnserve {

class Reservation;

class MessageLine final : private CompletionTag {
 public:
  enum class Kind { kCalls, kStreams };
  struct Options {
    Kind kind = Kind::kCalls;
    // Bytes of messages that arrive or are being parsed, known or estimated.
    int64_t max_bytes = int64_t{1} << 30;
    // The largest message that may come.
    int64_t max_message_bytes = int64_t{64} << 20;
    // Calls in line, and their time there.
    int64_t max_waiting = 1024;
    absl::Duration max_wait = absl::Milliseconds(100);
    // A reservation ends after this time without the whole message: the process holds already what has come of it.
    absl::Duration max_kept = absl::Seconds(1);
    // Called with the approximate sum of admitted bytes, before more may come than at the last call. One call at a
    // time.
    std::function<void(int64_t)> on_admitted_bytes = [](int64_t) {};
  };
  // Idle streams must not hold up others: their places end early. Bounded are streams themselves, not those in line.
  static Options ForStreams() {
    return {.kind = Kind::kStreams,
            .max_waiting = std::numeric_limits<int64_t>::max(),
            .max_wait = absl::InfiniteDuration(),
            .max_kept = absl::Milliseconds(100)};
  }

  // `admission` bounds the messages that have come, and knows the process's memory. It and `queue` outlive the line.
  MessageLine(Options options, CallAdmission* admission, grpc::CompletionQueue* queue);
  MessageLine(const MessageLine&) = delete;
  MessageLine& operator=(const MessageLine&) = delete;

  // Admitted calls or streams whose messages have not come, unless they are slow.
  int64_t reading() const {
    const MutexLock lock(mutex_);
    return static_cast<int64_t>(reading_.size());
  }
  // Calls or streams that wait in line.
  int64_t waiting() const {
    const MutexLock lock(mutex_);
    return line_.used();
  }

 private:
  friend class Reservation;
  struct Expected {
    int64_t message = 0;
    int64_t memory = 0;
  };
  using Coroutines = std::vector<std::coroutine_handle<>>;

  void Complete(bool) override;
  Expected Expect(const Reservation& reservation) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives it a place, if there is room.
  bool TryPlace(Reservation& reservation, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetMessage(Reservation& reservation, int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Release(Reservation& reservation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetSlow(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those that have room now, or have waited too long, leave the line.
  Coroutines TakeNext(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RefuseLate(absl::Time now, Coroutines& next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first of its caller leaves the line.
  std::coroutine_handle<> TakeFirst(uint64_t caller) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Report() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetAlarm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Move();

  const Options options_;
  CallAdmission* const admission_;
  MemoryWatch* const memory_;
  grpc::CompletionQueue* const queue_;
  const bool of_streams_;
  const int64_t times_message_;  // that a message takes of memory
  mutable Mutex mutex_;
  FairBound bytes_ ABSL_GUARDED_BY(mutex_);
  FairBound line_ ABSL_GUARDED_BY(mutex_);
  int64_t holding_ ABSL_GUARDED_BY(mutex_) = 0;                 // reservations with a place, without slow ones
  int64_t late_bytes_ ABSL_GUARDED_BY(mutex_) = 0;              // that slow ones may still send
  RecycledList<Reservation*> reading_ ABSL_GUARDED_BY(mutex_);  // the oldest first, without slow ones
  std::map<uint64_t, std::deque<Reservation*>> waiting_ ABSL_GUARDED_BY(mutex_);  // by caller; none is empty
  std::deque<uint64_t> turns_ ABSL_GUARDED_BY(mutex_);                            // the callers of waiting_
  int64_t reported_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_set_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);
};

// What a call or a stream holds of memory, from its headers until it ends.
class Reservation {
 public:
  // `sizes`: of messages like these; all their reservations use one line. It outlives them.
  Reservation(MessageLine& line, CallSizes& sizes) : line_(line), sizes_(sizes) {}
  ~Reservation();
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  // Before each message: co_await reservation.Turn(caller). RESOURCE_EXHAUSTED: not admitted.
  auto Turn(uint64_t caller) {
    struct Turning {
      Reservation& of;
      bool await_ready() { return of.HasTurn(); }
      void await_suspend(std::coroutine_handle<> waiting) { of.Wait(waiting); }
      absl::Status await_resume() { return std::exchange(of.status_, absl::OkStatus()); }
    };
    caller_ = caller;
    return Turning{*this};
  }
  // The message has come and has this size. OK: the call is in flight until this object ends. Else as
  // CallAdmission::Enter.
  absl::Status Came(int64_t bytes, bool even_if_closed);
  // The same for a message of a stream, which is in flight on its own.
  absl::StatusOr<CallAdmission::InFlight> MessageCame(int64_t bytes);
  // The message has been parsed and freed. Its further memory is promised elsewhere. On any thread.
  void Parsed();

 private:
  friend class MessageLine;
  // Whether the call or stream does not wait: its next message needs no room or has it, or it was refused.
  bool HasTurn();
  void Wait(std::coroutine_handle<> waiting);
  // True: memory for what the message is parsed into is promised.
  bool Arrived(int64_t bytes);

  MessageLine& line_;
  CallSizes& sizes_;
  std::optional<CallAdmission::InFlight> in_flight_;
  uint64_t caller_ = 0;
  int64_t usual_ = -1;   // bytes of its messages; -1: none has come
  bool holds_ = false;   // may hold some of the following
  absl::Status status_;  // of the turn
  // Guarded by the line's mutex.
  std::coroutine_handle<> waiting_;
  int64_t bytes_ = 0;     // of the message that has come
  int64_t counted_ = 0;   // of the line's bytes
  int64_t late_ = 0;      // of the line's late bytes
  int64_t promised_ = 0;  // of memory
  bool has_place_ = false;
  bool is_reading_ = false;  // and in reading_
  absl::Time since_;         // in line, or reading
  RecycledList<Reservation*>::iterator reading_;
};

}  // namespace rnnserve
