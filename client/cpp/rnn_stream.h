// SPDX-License-Identifier: Apache-2.0
// A session that is fed chunk by chunk and outlives connections and servers.
//
//   auto stream = RnnStream::Open({"gpu-1:50051", "gpu-2:50051"}, {.target = ModelRef{"vad"}}, {.checkpoint_every =
//   32}); for (const Tensor& x : microphone) Use((*stream)->Feed({x}));      // x: [steps, 1, features] auto
//   final_state = (*stream)->Close();
//
// Every chunk is applied exactly once, in order, whatever happens on the way:
//
// - a lost connection: another is made, and what was not answered is sent again under its number; the server answers
//   repetitions from its window and computes nothing twice;
// - a server that is leaving (drain): its state is fetched, and a session opened with it on the next server of the
//   list. One address is enough where it leads to several servers: each connection is a new one;
// - a server that was killed: with checkpoint_every = n the state is asked for after every n operations and the
//   operations since then are kept. A session is opened with that state and they are fed again; outputs that the caller
//   has seen come no second time. (On another engine they may differ in the last bits.)
//
// What cannot be mended fails the stream with DATA_LOSS: never does it go on from zeros. A stream whose session another
// stream or client has taken fails with ABORTED (OLDER_OWNER, FENCED) and sends nothing more: what it had in flight may
// have been applied. A stream that has failed answers everything with the same status. Errors of one operation (a wrong
// shape, its own time limit) leave stream and session as they were; operations that were fed behind it before its error
// was told are ABORTED, not applied.
//
// Bounded by StreamOptions: operations unanswered, bytes kept, time without an answer. Safe from any thread; operations
// take effect in the order of the calls. Callers that would go over a bound wait. The destructor drops the connection
// and leaves the session to expire; Close ends it. Not for whole sequences (Client::Infer), nor to look into sessions
// of others (SessionClient).
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
  // Asks for the state after so many operations, so that the stream survives a killed server. 0: never.
  int32_t checkpoint_every = 0;
  // Of operations, states and checkpoints kept here; a lone operation may be larger.
  int64_t max_kept_bytes = int64_t{64} << 20;
  // An operation is answered within this time, reconnecting, opening anew and feeding again included, or the stream
  // fails.
  std::chrono::milliseconds max_wait = std::chrono::seconds(60);
  // Largest reply taken, in bytes.
  int max_receive_bytes = 64 << 20;
  Credentials credentials = {};
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

// What it took so far to keep the stream going.
struct StreamRepairs {
  uint64_t reconnects = 0;  // to the same session
  uint64_t hand_overs = 0;  // opened anew with a drained server's state
  uint64_t replays = 0;     // opened anew from a snapshot of the client's
};

class RnnStream {
 public:
  // Tries each server in order, for max_wait while servers drain or cannot be reached, for 5 s at most while no server
  // has answered. `spec.request_id` may be empty. With `spec.attach`, or with a request id that has opened a session
  // before, the stream continues after the last operation that the session has applied.
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
  // Names the state as it is now; Rewind returns to it, also after the server that held it has gone.
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
