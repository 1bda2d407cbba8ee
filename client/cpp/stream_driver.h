// SPDX-License-Identifier: Apache-2.0
// Keeps a journal (stream_journal.h) and its connection: sends operations, receives replies, and recovers on a thread
// of its own. Inside the library only.
//
// Normally no thread of ours takes part: the caller's thread writes an operation, and one of gRPC's threads receives
// the reply and calls `done`. The driver's thread checks for operations that wait too long, reconnects, hands over and
// opens new sessions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/cpp/backoff.h"
#include "client/cpp/lookup.h"
#include "client/cpp/operation_stream.h"
#include "client/cpp/rnn_stream.h"
#include "client/cpp/stream_journal.h"

namespace rnnserve::client {

class StreamDriver final : private OperationStream::Observer {
 public:
  struct Answered {
    v1::OperationReply reply;
    size_t server = 0;  // where it ran, in the list
    std::string route;  // and where that was found; of a fork, which has to be found as well
  };
  // On any thread, with no lock held. Must not wait for this stream.
  using Done = absl::AnyInvocable<void(absl::StatusOr<Answered>)>;

  // A session that is there.
  struct Session {
    std::string key;
    std::string fingerprint;
    uint64_t last_applied = 0;
    StreamJournal::Agreed agreed = {};
    size_t server = 0;
    uint64_t position_offset = 0;
    std::string route;  // load balancers keep its calls together
    StreamJournal::Origin origin = StreamJournal::Origin::kElsewhere;
  };

  // Where a session may live, in the order of asking. Never changed; the driver makes another one.
  struct Candidates {
    std::shared_ptr<Lookup> lookup;
    std::vector<std::string> servers;

    static Candidates Of(std::vector<std::string> targets, const std::string& name, const StreamOptions& options);
    absl::StatusOr<Connection> Connect(size_t server, const StreamOptions& options, bool own_socket) const;
  };

  // Opens one, on the first server that accepts it.
  static absl::StatusOr<Session> Open(const Candidates& candidates, const v1::OpenRequest& request,
                                      const StreamOptions& options);

  // `request`: how to open another like it.
  StreamDriver(Candidates candidates, v1::OpenRequest request, const StreamOptions& options, Session session);
  ~StreamDriver() override;

  // Waits for room. Refuses every operation after Close has been answered, and after a failure.
  void Run(v1::Operation operation, Done done);

  const v1::OpenRequest& request() const { return request_; }
  const StreamOptions& options() const { return options_; }
  const std::string& fingerprint() const { return fingerprint_; }
  StreamJournal::Agreed agreed() const;
  std::string key() const;
  Candidates candidates() const;
  // Of the server that has, or last had, the session.
  std::string address() const;
  StreamRepairs repairs() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  using Calls = std::vector<absl::AnyInvocable<void()>>;
  using Lock = MutexLock;

  void OnTaken(uint64_t id) override;
  void OnMessage(uint64_t id, v1::StreamResponse& message) override;
  void OnEnd(uint64_t id, absl::Status status, std::shared_ptr<OperationStream> stream) override;

  void Loop();
  // All below with mutex_ held. What is to be called without it is added to `calls`.
  Calls Check(Lock& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  absl::Status TooLong(Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsSilent(Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Handle(StreamJournal::Next next, Calls& calls) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Pump(Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartWire(const Connection& connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropWire() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Lose(absl::Status status, Calls& calls) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(absl::Status status, Calls& calls) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LeaveDrained() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Recover(Lock& lock, Calls& calls) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void GoToNextServer() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Reattach(Calls& calls) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OpenAnew(Lock& lock, Calls& calls) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  void LookUpAgain(Lock& lock) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  absl::Status CallOpen(Lock& lock, const Connection& connection, const v1::OpenRequest& request,
                        v1::OpenResponse& response) ABSL_NO_THREAD_SAFETY_ANALYSIS;
  v1::OpenRequest RequestFromSnapshot() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const v1::OpenRequest request_;
  const StreamOptions options_;
  const std::string fingerprint_;

  mutable Mutex mutex_;
  Candidates candidates_ ABSL_GUARDED_BY(mutex_);
  Time look_at_ ABSL_GUARDED_BY(mutex_);       // when names may be looked up again
  CondVar changed_;                            // for the thread
  CondVar room_;                               // for threads that wait to add an operation
  std::string route_ ABSL_GUARDED_BY(mutex_);  // of the session; another one for each server that has to be looked for
  StreamJournal::Agreed agreed_ ABSL_GUARDED_BY(mutex_);
  StreamJournal journal_ ABSL_GUARDED_BY(mutex_);
  std::map<StreamJournal::Ticket, Done> waiting_ ABSL_GUARDED_BY(mutex_);
  std::optional<StreamJournal::Ticket> close_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failed_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<OperationStream> wire_ ABSL_GUARDED_BY(mutex_);  // null: lost
  uint64_t wire_id_ ABSL_GUARDED_BY(mutex_) = 0;                   // of wire_, counted
  std::vector<std::weak_ptr<OperationStream>> wires_
      ABSL_GUARDED_BY(mutex_);  // all that may not have ended, for the destructor
  std::vector<std::shared_ptr<OperationStream>> ended_ ABSL_GUARDED_BY(mutex_);  // to be dropped by the thread
  int open_wires_ ABSL_GUARDED_BY(mutex_) = 0;                                   // that have not ended
  std::optional<size_t> session_server_
      ABSL_GUARDED_BY(mutex_);  // the server that has the session; absent: it has to be opened anew
  size_t last_session_server_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t next_server_ ABSL_GUARDED_BY(mutex_) = 0;          // to be asked to open
  std::optional<size_t> taken_at_ ABSL_GUARDED_BY(mutex_);  // the server that last took a connection
  int drains_ ABSL_GUARDED_BY(mutex_) = 0;                  // servers left in a row, without an answer in between
  bool handing_over_ ABSL_GUARDED_BY(mutex_) = false;
  int tries_ ABSL_GUARDED_BY(mutex_) = 0;
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  Time recover_at_ ABSL_GUARDED_BY(mutex_);
  Time pause_until_ ABSL_GUARDED_BY(mutex_);
  Time last_message_at_ ABSL_GUARDED_BY(mutex_);
  std::optional<Time> broken_since_ ABSL_GUARDED_BY(mutex_);
  absl::Status last_error_ ABSL_GUARDED_BY(mutex_);
  // Of what is being opened anew, until the stream has recovered: its id, its route, and the servers that cannot have
  // it.
  std::string reopen_id_ ABSL_GUARDED_BY(mutex_);
  std::string reopen_route_ ABSL_GUARDED_BY(mutex_);
  std::set<size_t> without_engine_ ABSL_GUARDED_BY(mutex_);
  grpc::ClientContext* opening_ ABSL_GUARDED_BY(mutex_) = nullptr;  // to be cancelled by the destructor
  StreamRepairs repairs_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;  // last: it sees all of the above
};

}  // namespace rnnserve::client
