// SPDX-License-Identifier: Apache-2.0
// A whole server in this process as main.cc wires it, with sessions, behind a WatchedEngine.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <vector>

#include "engine/reference/reference_engine.h"
#include "server/api/grpc_server.h"
#include "server/batching/cellular_scheduler.h"
#include "server/sessions/contract/memory_sessions.h"
#include "server/sessions/execution/session_core.h"
#include "tests/server/api/streams/cut_wire.h"
#include "tests/server/api/streams/stream_client.h"
#include "tests/server/api/streams/watched_engine.h"

namespace rnnserve {

// Hands everything on, and remembers the cancellation flag of the last submission that has one.
class FlagSpy final : public Scheduler {
 public:
  explicit FlagSpy(Scheduler* target) : target_(target) {}
  absl::Status Schedule(Submission&& submission) override {
    if (submission.cancelled != nullptr) {
      const std::lock_guard lock(mutex_);
      last_ = submission.cancelled;
    }
    return target_->Schedule(std::move(submission));
  }
  QueueLoad load() const override { return target_->load(); }
  std::shared_ptr<const std::atomic<bool>> last() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  Scheduler* const target_;
  mutable std::mutex mutex_;
  std::shared_ptr<const std::atomic<bool>> last_;  // guarded by mutex_
};

struct SessionServer {
  struct Setup {
    // Short slices run on the poller, as in the real server; else all on workers.
    bool slices_on_poller = false;
    std::unique_ptr<Engine> engine = MakeReferenceEngine();
    GrpcServer::Options server = {};
    Core::Options core = {};
    SessionCore::Options sessions = {};
  };
  SessionServer() : SessionServer(Setup()) {}
  explicit SessionServer(Setup setup);

  WatchedEngine engine;
  ModelStore store{{}};
  ProgramCache programs{int64_t{1} << 30};
  SteadyClock clock;
  MemorySessions sessions{{}, &clock};  // goes after the scheduler
  CellularScheduler scheduler;
  FlagSpy spy{&scheduler};
  Core core;
  SessionCore session_core;
  std::unique_ptr<GrpcServer> server;
};

// A caller's connection of its own.
struct CallerConnection {
  explicit CallerConnection(int port);

  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Recurrent::Stub> recurrent;
  std::unique_ptr<v1::Sessions::Stub> sessions;
};

// A caller with one stream, over a wire that can be cut. Streams and connections are opened anew when they are over.
class Line {
 public:
  explicit Line(int server_port) : wire_(server_port) {}

  CallerConnection& connection();
  std::shared_ptr<StreamClient> stream();
  std::shared_ptr<ApplyClient> Apply(const v1::Operation& operation);
  // The next stream is another one; this one goes on as long as a test holds it.
  void LeaveStream() { stream_.reset(); }
  // What is under way ends, or is never heard of again.
  void Cut();
  void Freeze();

 private:
  CutWire wire_;
  std::unique_ptr<CallerConnection> connection_;
  std::shared_ptr<StreamClient> stream_;
  // All that may still be under way.
  std::vector<std::weak_ptr<StreamClient>> streams_;
  std::vector<std::weak_ptr<ApplyClient>> calls_;
};

}  // namespace rnnserve
