// SPDX-License-Identifier: Apache-2.0
// A whole server in this process, on a free port of the loopback interface, with a client's channel to it. Its "fake"
// engine sums X of cells with I = H = 1 and calls a hook before each slice; "reference" computes truly.
#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/reference/reference_engine.h"
#include "rnnserve/v1/models.grpc.pb.h"
#include "rnnserve/v1/recurrent.grpc.pb.h"
#include "server/api/grpc_server.h"
#include "server/batching/cellular_scheduler.h"
#include "server/sessions/contract/memory_sessions.h"
#include "server/sessions/execution/session_core.h"
#include "tests/server/core/fake_engine.h"

namespace rnnserve {

// Hands everything on, and remembers the cancellation flag of the last submission.
class CancellationSpy final : public Scheduler {
 public:
  explicit CancellationSpy(Scheduler* target) : target_(target) {}
  absl::Status Schedule(Submission&& submission) override;
  QueueLoad load() const override { return target_->load(); }
  std::shared_ptr<const std::atomic<bool>> last() const;

 private:
  Scheduler* const target_;
  mutable std::mutex mutex_;
  std::shared_ptr<const std::atomic<bool>> last_;  // guarded by mutex_
};

struct RunningServer {
  struct Setup {
    std::function<absl::Status()> before_slice = [] { return absl::OkStatus(); };
    int64_t max_queued_sequences = 1 << 16;
    GrpcServer::Options server = {};
    bool own_listener = true;  // where the build has it; else gRPC's
    Core::Options core = {};
    int workers = 2;
  };
  RunningServer() : RunningServer(Setup()) {}
  explicit RunningServer(Setup setup);

  FakeEngine fake;
  std::unique_ptr<Engine> reference = MakeReferenceEngine();
  ModelStore store{{}};
  ProgramCache programs{1 << 20};
  SteadyClock clock;
  MemorySessions sessions{{}, &clock};  // goes after the workers
  CellularScheduler workers;
  CancellationSpy cancellation{&workers};
  Core core;
  SessionCore session_core{{}, &core, &sessions, &clock};
  std::unique_ptr<GrpcServer> server;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Recurrent::Stub> recurrent;
  std::unique_ptr<v1::Models::Stub> models;
};

// A float32 tensor in its typed list.
void AddTensor(google::protobuf::RepeatedPtrField<v1::Tensor>& tensors, const std::string& name,
               std::vector<int64_t> shape, std::vector<float> values);

// RNN-14 with I = H = 1, W = 0.5, R = 0.25 and this X of one row.
v1::InferRequest RnnRequest(std::vector<float> x, const std::string& engine);

// The values of a float32 output.
std::vector<float> Values(const v1::Tensor& tensor);

}  // namespace rnnserve
