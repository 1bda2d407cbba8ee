// SPDX-License-Identifier: Apache-2.0
// One bidirectional stream on the asynchronous server, as raw bytes.
//
//   StreamMethod method = {"Service.Method", PostStream(service, "/package.Service/Method"),
//                          [&](std::shared_ptr<StreamCall> call) { return std::make_unique<MyHandler>(call); }};
//   ServeStream(method, site);      // once for each posted slot
//
// ServeStream reads message after message and gives each to the handler, which counts its operations in flight. Replies
// are written in the order of Send, by the poller thread. Replies of one of its turns, and those that come while a
// write is under way, are joined, in messages of up to a mebibyte: gRPC's clients take 4 MiB by default. After the
// caller has closed its side, the stream ends after the last reply. The server stops reading from a caller that reads
// no replies: that caller delays only itself.
#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_stream.h>

#include <algorithm>
#include <atomic>
#include <coroutine>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/completion.h"
#include "base/mutex.h"
#include "server/admission/byte_budget.h"
#include "server/admission/call_admission.h"
#include "server/admission/fair_bound.h"
#include "server/admission/message_line.h"
#include "server/admission/send_watch.h"
#include "server/rpc/call_end.h"
#include "server/rpc/call_log.h"
#include "server/rpc/outbox.h"
#include "server/rpc/poller.h"
#include "server/rpc/preparation_pool.h"
#include "server/rpc/raw_service.h"
#include "server/rpc/stream_reader.h"
#include "server/rpc/task.h"
#include "server/security/gate.h"
#include "server/telemetry/request_metrics.h"

namespace rnnserve {

class StreamCall;

// What a method does with a stream.
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;
  // One message, which is in flight as long as `in_flight` lives; if that is an error, it answers the operations of the
  // message. The next one is read when this is done; an error ends the stream when no operation is in flight.
  virtual Task<absl::Status> OnMessage(grpc::ByteBuffer message, absl::StatusOr<CallAdmission::InFlight> in_flight) = 0;
  // After the last message, where none ended the stream: the caller has closed its side or is gone, or (`given_up`) the
  // stream's time is over. OK: the stream ends as the caller or its time has ended it.
  virtual Task<absl::Status> OnEnd(bool) { co_return absl::OkStatus(); }
  // The server shuts down at about `leaves_at`. On any thread, perhaps during OnMessage.
  virtual void OnDrain(absl::Time leaves_at) = 0;
};

struct StreamMethod {
  std::string name;  // Service.Method, as metrics and logs say it
  // Asks for a stream: PostStream.
  std::function<void(grpc::ServerContext*, RawStream*, grpc::ServerCompletionQueue*, void* tag)> post;
  std::function<std::unique_ptr<StreamHandler>(std::shared_ptr<StreamCall>)> open;
  // Whether parts that wait for the wire leave as one message: messages of repeated fields may follow one another.
  bool joins_parts = true;
  Permission permission = Permission::kUse;
  // Count the streams and their operations; set before the method is served.
  std::shared_ptr<const CallMetrics> streams = nullptr;
  std::shared_ptr<const CallMetrics> operations = nullptr;
};

// The `post` of a method that is called by this path, which lives as long as the service. A stream with one message
// from one side is the same to HTTP/2.
inline auto PostStream(RawService& service, const char* path) {
  return [&service, index = service.AddStream(path)](auto... slot) { service.RequestStream(index, slot...); };
}

struct StreamLimits {
  // Streams at once, of all callers; further ones are RESOURCE_EXHAUSTED. No caller gets all of them (FairBound).
  int64_t max_streams = 4096;
  // Operations of one stream in flight, and bytes of its replies that wait to be written: reading pauses above.
  int64_t max_in_flight = 4096;
  int64_t max_outbox_bytes = 4 << 20;
  // About the same for all streams together: each stream's share shrinks as streams open, to 64 KiB at the least.
  // Output bytes are bounded elsewhere too. Error replies are not, and a caller that does not read could collect
  // millions of them.
  int64_t total_outbox_bytes = 256 << 20;

  // A message of many operations is handled beside the poller thread while fewer preparation threads have work.
  int max_beside = 1;

  // Maximum age of a stream: the server then reads no more, answers what it has read, and ends the stream with
  // UNAVAILABLE. For servers with a maximum connection age, which would cut the stream off in the middle.
  absl::Duration max_age = absl::InfiniteDuration();
  // Between two messages of the caller; then as above.
  absl::Duration max_pause = absl::InfiniteDuration();

  int64_t OutboxBytes(int64_t streams) const {
    const int64_t even = std::max<int64_t>(total_outbox_bytes / std::max<int64_t>(streams, 1), 64 << 10);
    return std::min(max_outbox_bytes, even);
  }
};

// What all streams share, and the open streams.
class StreamSite {
 public:
  struct Parts {
    Poller* poller;
    Gate* gate;
    PreparationPool* preparation;
    SendWatch* send_watch;
    MessageLine* line;
    const RequestMetrics* requests;
    CallLog* log;
    StreamLimits limits;
  };
  explicit StreamSite(Parts parts) : parts_(parts), bound_(parts.limits.max_streams) {}

  const Parts& parts() const { return parts_; }
  // Notifies all open streams, and streams that open later.
  void Drain(absl::Time leaves_at);
  int64_t open() const { return open_.load(std::memory_order_relaxed); }
  // Ends streams whose token has been taken away.
  void EndRevoked();

 private:
  friend class StreamCall;
  friend CallTask ServeStream(const StreamMethod& method, StreamSite& site);
  bool Enter(const std::shared_ptr<StreamCall>& call);
  void Leave(const std::shared_ptr<StreamCall>& call);

  const Parts parts_;
  CallSizes sizes_;                // of all streams' messages
  int64_t many_ = 0;               // messages of many operations; the poller thread's own
  std::atomic<int64_t> open_ = 0;  // of calls_
  mutable Mutex mutex_;
  std::set<std::shared_ptr<StreamCall>> calls_ ABSL_GUARDED_BY(mutex_);
  FairBound bound_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Time> leaves_at_ ABSL_GUARDED_BY(mutex_);
};

class StreamCall : public std::enable_shared_from_this<StreamCall> {
 public:
  StreamCall(const StreamMethod& method, StreamSite& site)
      : method_(method),
        operation_name_(absl::StrCat(method.name, ".operation")),
        site_(site),
        reservation_(*site.parts().line, site.sizes_) {}
  StreamCall(const StreamCall&) = delete;
  StreamCall& operator=(const StreamCall&) = delete;

  // The same for all calls of one tenant, or of one connection where the server has no tokens.
  uint64_t caller_id() const { return caller_id_; }
  const CallerPtr& caller() const { return caller_; }
  // The caller's address.
  std::string peer() const { return context_.peer(); }
  const StreamLimits& limits() const { return site_.parts().limits; }
  // Becomes true when the caller cancels or disconnects.
  const std::shared_ptr<std::atomic<bool>>& cancelled() const { return end_.cancelled(); }

  // A part of a message to the caller; `held` goes when it has left. From any thread.
  void Send(grpc::Slice part, std::optional<ByteBudget::Share> held = {});
  // The same, of a method that joins parts, by a copy: for small ones. Then EndWork; the caller keeps the call.
  void SendLastCopy(std::span<const uint8_t> part, std::optional<ByteBudget::Share> held);

  // Whether replies were left that the caller has not taken and never will.
  bool GaveUpReplies() const {
    const MutexLock lock(mutex_);
    return given_up_;
  }

  // Around each piece of work that will Send later.
  void BeginWork();
  void EndWork();
  // Counts an operation that came at `arrived`, among those of its model too (null: of none), and logs it if need be.
  void RecordOperation(const absl::Status& status, std::string_view request_id, absl::Time arrived,
                       const CallMetrics* model);

  // co_await call.UntilRoom(): until there may be more in flight.
  auto UntilRoom() {
    return Until{*this, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return HasRoom(); }};
  }
  // co_await call.BeginWhenRoom(): UntilRoom and BeginWork in one.
  auto BeginWhenRoom() {
    site_.parts().requests->in_flight().Add(1);
    return Until{*this, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return HasRoom(); }, /*begins=*/true};
  }
  // The handler's message has been copied and freed.
  void Parsed() { reservation_.Parsed(); }
  // Await this before a message of many operations: where several streams send such messages, another thread handles
  // some beside the poller thread.
  PreparationPool::Awaiter ShareMany();
  // Runs what the operations that have begun on this thread need.
  void RunWork() { site_.parts().poller->RunWork(); }
  // Await this before long work.
  PreparationPool::Awaiter LeavePoller() { return site_.parts().preparation->Schedule(caller_id_); }

 private:
  friend class StreamSite;
  friend CallTask ServeStream(const StreamMethod& method, StreamSite& site);

  // Gives the handler one message after the other. OK: the caller sends no more, or the stream reached its age.
  Task<absl::Status> HandleMessages();

  // Awaits a condition on what mutex_ guards, and begins work as soon as it holds if asked to. One coroutine waits at a
  // time.
  struct Until {
    StreamCall& call;
    std::function<bool()> condition;
    bool begins = false;
    bool await_ready() const {
      MutexLock lock(call.mutex_);
      return Passes();
    }
    bool await_suspend(std::coroutine_handle<> waiting) {
      MutexLock lock(call.mutex_);
      if (Passes()) return false;
      call.waiting_ = waiting;
      call.waits_for_ = this;
      return true;
    }
    void await_resume() const noexcept {}
    bool Passes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(call.mutex_) {
      const bool holds = condition();
      if (holds && begins) ++call.in_flight_;
      return holds;
    }
  };
  // co_await call.UntilIdle(): until nothing is in flight and there is nothing to write.
  Until UntilIdle() {
    return Until{*this,
                 [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return in_flight_ == 0 && !writing_ && !has_turn_; }};
  }

  // One work less; the waiting coroutine goes on if its condition holds now.
  void Ended() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return broken_ || (in_flight_ < site_.parts().limits.max_in_flight &&
                       outbox_bytes_ < site_.parts().limits.OutboxBytes(site_.open()));
  }
  void SendInitialMetadata();
  // The next write and the waiting coroutine go on on the poller thread.
  void TakeTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TurnCame(bool ok);
  // Whether the outbox takes a part; after it: Added.
  bool MayAdd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Added(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteDone(bool ok);
  void StartWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Changed(MutexLock& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS;  // resumes the coroutine if its condition holds now

  const StreamMethod& method_;
  const std::string operation_name_;
  StreamSite& site_;
  Reservation reservation_;
  grpc::ServerContext context_;
  RawStream stream_{&context_};
  StreamReader reader_{&stream_};
  CallEnd end_{context_};
  int64_t many_ = 0;  // the site's at this call's last message of many operations
  TagOf<StreamCall> written_{this, &StreamCall::WriteDone};
  TagOf<StreamCall, Poller::Waiter> turn_{this, &StreamCall::TurnCame};
  CallerPtr caller_;
  uint64_t caller_id_ = 0;  // asking gRPC each time costs a string
  std::unique_ptr<StreamHandler> handler_;

  mutable Mutex mutex_;
  Outbox outbox_ ABSL_GUARDED_BY(mutex_);
  Outbox::Shares on_wire_ ABSL_GUARDED_BY(mutex_);    // held by the message being written
  int64_t outbox_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of the outbox and what is being written
  int64_t wire_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_turn_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;    // nothing can be written any more
  bool given_up_ ABSL_GUARDED_BY(mutex_) = false;  // and there were replies to write
  std::coroutine_handle<> waiting_ ABSL_GUARDED_BY(mutex_);
  const Until* waits_for_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::optional<SendWatch::Sending> sending_ ABSL_GUARDED_BY(mutex_);
};

// Posts one slot, serves the stream that takes it, and posts the next slot as soon as this one is taken. Ends with the
// server. `method` and `site` outlive it.
CallTask ServeStream(const StreamMethod& method, StreamSite& site);

}  // namespace rnnserve
