// SPDX-License-Identifier: Apache-2.0
// Streams with large messages wait here for memory before the server reads the next message. A stream does not announce
// its messages: HTTP/2 stops it after 64 KiB until the server reads. The line lets the server read when there is memory
// for a message as large as the stream's last one; other streams wait, callers in turns. Small messages never wait.
//
//   StreamLine::Reservation reservation(line);              // one per stream
//   co_await reservation.Turn(caller);
//   co_await the message;
//   reservation.Came(bytes);
//   ...
//   reservation.Parsed();                                   // the message has been copied and freed
//
// The memory of a stream that sends nothing is released after `max_kept`. Thread-safe; one stream uses a reservation.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <coroutine>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/completion.h"
#include "base/mutex.h"
#include "server/admission/call_sizes.h"
#include "server/admission/memory_watch.h"

namespace rnnserve {

class StreamLine final : private CompletionTag {
 public:
  struct Options {
    // Bytes of messages that arrive or are not yet parsed, known or estimated.
    int64_t max_bytes = int64_t{1} << 30;
    // The largest message that may come.
    int64_t max_message_bytes = int64_t{64} << 20;
    // A reservation ends after this time without a message.
    absl::Duration max_kept = absl::Milliseconds(100);
    // Whether the process has memory; outlives the line. Null: only the bounds above hold.
    MemoryWatch* memory = nullptr;
    // Called with the approximate sum of admitted bytes, before more may come than at the last call. One call at a
    // time.
    std::function<void(int64_t)> let_in = [](int64_t) {};
  };
  class Reservation;
  class Turning;

  StreamLine(Options options, grpc::CompletionQueue* queue) : options_(std::move(options)), queue_(queue) {}
  StreamLine(const StreamLine&) = delete;
  StreamLine& operator=(const StreamLine&) = delete;

 private:
  void Complete(bool) override;
  // All of these with mutex_ held.
  int64_t Expected(const Reservation& reservation) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool TryTake(Reservation& reservation, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Release(Reservation& reservation, int64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);  // from what it holds to `bytes`
  void ForgetIdle(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<std::coroutine_handle<>> TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Tell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetAlarm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Move();  // without it

  const Options options_;
  grpc::CompletionQueue* const queue_;
  Mutex mutex_;
  RecentLargest largest_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of all reservations
  int64_t late_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<Reservation*> asked_ ABSL_GUARDED_BY(mutex_);                     // and not forgotten, the oldest first
  std::map<uint64_t, std::deque<Turning*>> waiting_ ABSL_GUARDED_BY(mutex_);  // by caller; none is empty
  std::deque<uint64_t> turns_ ABSL_GUARDED_BY(mutex_);                        // the callers of waiting_
  int64_t waiting_streams_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t told_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_set_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);
};

class StreamLine::Turning {
 public:
  bool await_ready();
  bool await_suspend(std::coroutine_handle<> waiting);
  void await_resume() const noexcept {}

 private:
  friend class StreamLine;
  friend class StreamLine::Reservation;
  explicit Turning(Reservation& reservation) : reservation_(reservation) {}
  Reservation& reservation_;
  std::coroutine_handle<> waiting_;
};

class StreamLine::Reservation {
 public:
  explicit Reservation(StreamLine& line) : line_(line) {}
  ~Reservation() { Parsed(); }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  // Before each message; `caller`: the tenant or connection that shares turns.
  Turning Turn(uint64_t caller) {
    caller_ = caller;
    return Turning(*this);
  }
  void Came(int64_t bytes);
  // Whether the message that came has been promised the memory for what it is parsed into.
  bool has_memory() const { return promised_ > 0; }
  void Parsed();

 private:
  friend class StreamLine;
  friend class StreamLine::Turning;
  StreamLine& line_;
  uint64_t caller_ = 0;
  int64_t usual_ = -1;  // bytes of its messages; -1: none has come
  bool holds_ = false;  // may hold some of the following
  // Guarded by the line's mutex.
  int64_t bytes_ = 0;     // of the line's
  int64_t late_ = 0;      // after it was asked, and forgotten
  int64_t promised_ = 0;  // of memory
  absl::Time since_;
  bool is_asked_ = false;  // and in asked_
  std::list<Reservation*>::iterator asked_;
};

}  // namespace rnnserve
