// SPDX-License-Identifier: Apache-2.0
// Reads of a stream that can be abandoned. gRPC ends a read only together with its call, and then replies are lost: so
// an abandoned read stays open until the call has been finished.
//
//   StreamReader reader(&stream);
//   reader.StopAt(queue, at, pause);    // optional
//   while (co_await reader.Next()) Use(reader.TakeMessage());
//   ... stream.Finish(...)                // reader.given_up(): abandoned, not ended by the caller
//   co_await reader.Over();               // before it is destroyed
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <coroutine>
#include <utility>

#include "absl/time/time.h"
#include "base/completion.h"
#include "base/mutex.h"
#include "server/rpc/raw_service.h"

namespace rnnserve {

// Calls `done` of `of`.
template <typename Of, typename Tag = CompletionTag>
class TagOf final : public Tag {
 public:
  TagOf(Of* of, void (Of::*done)(bool ok)) : of_(of), done_(done) {}
  void Complete(bool ok) override { (of_->*done_)(ok); }

 private:
  Of* const of_;
  void (Of::*const done_)(bool ok);
};

class StreamReader {
 public:
  // `stream` outlives it.
  explicit StreamReader(RawStream* stream) : stream_(stream) {}
  StreamReader(const StreamReader&) = delete;
  StreamReader& operator=(const StreamReader&) = delete;

  // From this time (SteadyNow's) on, or once a message has been waited for for `pause`, no message comes any more; one
  // that was on its way is dropped. At most once, before the first message.
  void StopAt(grpc::CompletionQueue* queue, absl::Time at, absl::Duration pause = absl::InfiniteDuration());

  // co_await Next(): whether a message has come; false as well once it has been given up. One coroutine waits at a
  // time.
  auto Next() { return Reading{*this}; }
  // Swaps the message out: a move would copy the buffer, and its memory would be held until the next message.
  grpc::ByteBuffer TakeMessage() {
    grpc::ByteBuffer message;
    message.Swap(&message_);
    return message;
  }
  bool given_up() const {
    const MutexLock lock(mutex_);
    return given_up_;
  }

  // co_await Over(): until gRPC has nothing of this any more.
  auto Over() {
    const MutexLock lock(mutex_);
    is_over_ = true;
    alarm_.Cancel();
    return Ending{*this};
  }

 private:
  struct Reading {
    StreamReader& reader;
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> waiting) { return reader.Read(waiting); }
    bool await_resume() const { return reader.has_message(); }
  };
  struct Ending {
    StreamReader& reader;
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> waiting) { return reader.WaitForEnd(waiting); }
    void await_resume() const noexcept {}
  };

  // False: there is nothing to wait for.
  bool Read(std::coroutine_handle<> waiting);
  bool WaitForEnd(std::coroutine_handle<> waiting);
  bool has_message() const;
  void ReadDone(bool ok);
  void AlarmDone(bool ok);
  void SetAlarm(absl::Time at) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // With `lock` on mutex_, which it releases: continues the coroutine that waits for a message, or for the end.
  void GoOn(MutexLock& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  RawStream* const stream_;
  TagOf<StreamReader> read_done_{this, &StreamReader::ReadDone};
  TagOf<StreamReader> alarm_done_{this, &StreamReader::AlarmDone};
  grpc::Alarm alarm_;
  grpc::ByteBuffer message_;  // gRPC's while is_reading_

  mutable Mutex mutex_;
  bool is_reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_alarm_set_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_message_ ABSL_GUARDED_BY(mutex_) = false;
  bool given_up_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_over_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::CompletionQueue* queue_ = nullptr;  // set by StopAt, as the next two
  absl::Time stop_at_ = absl::InfiniteFuture();
  absl::Duration pause_ = absl::InfiniteDuration();
  absl::Time reading_since_ ABSL_GUARDED_BY(mutex_);
  std::coroutine_handle<> next_ ABSL_GUARDED_BY(mutex_);  // waits for a message
  std::coroutine_handle<> end_ ABSL_GUARDED_BY(mutex_);   // waits for the end
};

}  // namespace rnnserve
