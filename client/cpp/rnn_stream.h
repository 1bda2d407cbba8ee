// SPDX-License-Identifier: Apache-2.0
// A session that is fed chunk by chunk and survives lost connections and servers.
//
//   StreamOptions options = {.checkpoint_every = 32};
//   auto stream = RnnStream::Open({"gpu-1:50051", "gpu-2:50051"}, {.target = ModelRef{"vad"}}, options);
//   for (const Tensor& x : microphone) Use((*stream)->Feed({x}));   // x: [steps, 1, features]
//   auto final_state = (*stream)->Close();
//
// Every chunk is applied exactly once, in order:
//
// - A connection is lost: the stream reconnects and sends unanswered operations again under their numbers. The server
//   answers repetitions from its window and computes nothing twice.
// - A server drains: the stream fetches the state and opens a session with it on the next server of the list. One
//   address is enough where it leads to several servers, because each connection is a new one.
// - A server was killed: with checkpoint_every = n the stream fetches the state after every n operations and keeps the
//   operations since then. It opens a session with that state and feeds these operations again. The caller does not see
//   their outputs a second time. (They may differ in the last bits: on another engine, or without `deterministic`.)
//
// - The session is durable (SessionSpec::durability): it keeps its key, and another server of the store goes on with it
//   when its own drains or is killed. The stream sends again what the store does not have yet. Only where the store has
//   lost the session is it restored as above.
//
// If the session cannot be restored, the stream fails with DATA_LOSS; it never continues from zeros. If another stream
// or client has taken the session, the stream fails with ABORTED (OLDER_OWNER, FENCED) and sends nothing more; its
// operations in flight may have been applied. A failed stream answers every call with the same status. An error of one
// operation (a wrong shape, its own time limit) leaves stream and session as they were. Operations that the caller fed
// behind it before it saw the error are ABORTED, not applied.
//
// StreamOptions bounds unanswered operations, kept bytes, and the time without an answer. Safe from any thread;
// operations take effect in the order of the calls. A call that would exceed a bound waits. The destructor closes the
// connection and leaves the session to expire; Close ends it. Not for whole sequences (Client::Infer), nor for sessions
// of other streams (SessionClient).
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/credentials.h"
#include "client/cpp/session_types.h"

namespace rnnserve::client {

struct StreamOptions {
  // Operations unanswered at once.
  int32_t max_in_flight = 8;
  // Fetches the state after this many operations, so that the stream survives a killed server. 0: never.
  int32_t checkpoint_every = 0;
  // Of operations, states and checkpoints kept here; a lone operation may be larger.
  int64_t max_kept_bytes = int64_t{64} << 20;
  // Maximum time until an operation is answered, including reconnecting and replaying; then the stream fails.
  std::chrono::milliseconds max_wait = std::chrono::seconds(60);
  // Largest reply taken, in bytes.
  int max_receive_bytes = 64 << 20;
  Credentials credentials = {};
  // kSpread: a stream whose session has a name begins at the server that its hash says, which is the same for every
  // client with these addresses; one without a name at the next in turn. kPickFirst: at the first that takes it.
  LoadBalancing load_balancing = LoadBalancing::kSpread;
};

struct FeedOptions {
  std::optional<std::vector<std::string>> outputs = {};   // absent: the session's; empty: none, the state moves only
  std::optional<std::chrono::milliseconds> timeout = {};  // the chunk's own limit; one that passes leaves the state
  int32_t priority = 0;
};

struct ChunkResult {
  std::vector<Tensor> outputs;
  uint64_t number = 0;    // counts the stream's operations, whichever session they ran in; a Rewind may take two
  uint64_t position = 0;  // steps since the stream's beginning, this chunk's included
  std::string engine;
  std::chrono::nanoseconds queue_time{0};
  std::chrono::nanoseconds compute_time{0};
};

// How often the stream has recovered.
struct StreamRepairs {
  uint64_t reconnects = 0;  // to the same session
  uint64_t hand_overs = 0;  // opened anew with a drained server's state
  uint64_t replays = 0;     // opened anew from a snapshot of the client's
  uint64_t takeovers = 0;   // a durable session, gone on with on another server
};

class RnnStream {
 public:
  // Each of `servers` as Client::Create takes them. Tries each, beginning as load_balancing says, for max_wait while
  // servers drain or cannot be reached, for 5 s at most while no server has answered. `spec.request_id` may be empty.
  // With `spec.attach`, or with a request id that has opened a session before, the stream continues after the last
  // operation that the session has applied.
  static absl::StatusOr<std::unique_ptr<RnnStream>> Open(std::vector<std::string> servers, SessionSpec spec,
                                                         StreamOptions options = {});
  ~RnnStream();
  RnnStream(const RnnStream&) = delete;
  RnnStream& operator=(const RnnStream&) = delete;

  // `inputs`: X, and for several rows optionally sequence_lens.
  absl::StatusOr<ChunkResult> Feed(std::vector<Tensor> inputs, const FeedOptions& options = {});
  // Waits only for room.
  std::future<absl::StatusOr<ChunkResult>> FeedAsync(std::vector<Tensor> inputs, const FeedOptions& options = {});

  // Row k becomes the old row rows[k].
  absl::Status SelectRows(const std::vector<int64_t>& rows);
  // To zeros, or to a state (`tensors`: initial_h, initial_c).
  absl::Status Reset(const std::vector<Tensor>& tensors = {});
  // What State gave, here or elsewhere; another operator's is FAILED_PRECONDITION unless `force`.
  absl::Status SetState(const SessionState& state, bool force = false);
  // Names the present state; Rewind returns to it, also after the server that held it was lost.
  absl::Status Checkpoint(const std::string& name);
  absl::Status Rewind(const std::string& name);

  // After everything that was asked for before.
  absl::StatusOr<SessionState> State();
  // Another stream that starts from this one's state.
  absl::StatusOr<std::unique_ptr<RnnStream>> Fork(const std::string& name = "");
  // Ends the session; its final state.
  absl::StatusOr<SessionState> Close();

  // Of the session that carries the stream now.
  std::string key() const;
  std::string server() const;
  const std::string& fingerprint() const;
  StreamRepairs repairs() const;

 private:
  class Impl;
  explicit RnnStream(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace rnnserve::client
