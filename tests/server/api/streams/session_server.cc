// SPDX-License-Identifier: Apache-2.0
#include "tests/server/api/streams/session_server.h"

#include <string>
#include <utility>

namespace rnnserve {
namespace {

template <typename Client>
void Note(std::vector<std::weak_ptr<Client>>& clients, const std::shared_ptr<Client>& client) {
  std::erase_if(clients, [](const std::weak_ptr<Client>& one) { return one.expired(); });
  clients.push_back(client);
}

}  // namespace

SessionServer::SessionServer(Setup setup)
    : engine(std::move(setup.engine)),
      scheduler({.workers = 2}, {setup.slices_on_poller ? absl::Microseconds(200) : absl::ZeroDuration()}),
      core(setup.core, {&engine}, &store, &programs, &spy),
      session_core(setup.sessions, &core, &sessions, &clock) {
  setup.server.listen = {"127.0.0.1:0"};
  if (setup.slices_on_poller) {
    setup.server.work_waiting = [this] { return scheduler.collected(); };
    setup.server.work_unfinished = [this] { return scheduler.load().submissions + scheduler.collected(); };
    setup.server.run_work = [this](int64_t callers, bool collects) { scheduler.RunCollected(callers, collects); };
  }
  absl::StatusOr<std::unique_ptr<GrpcServer>> started = GrpcServer::Start(setup.server, &core, &session_core);
  if (!started.ok()) {
    std::fprintf(stderr, "%s\n", started.status().ToString().c_str());
    std::abort();
  }
  server = *std::move(started);
}

CallerConnection::CallerConnection(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  channel =
      grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials(), arguments);
  recurrent = v1::Recurrent::NewStub(channel);
  sessions = v1::Sessions::NewStub(channel);
}

CallerConnection& Line::connection() {
  if (connection_ == nullptr) connection_ = std::make_unique<CallerConnection>(wire_.port());
  return *connection_;
}

std::shared_ptr<StreamClient> Line::stream() {
  if (stream_ != nullptr && stream_->is_over()) stream_.reset();
  if (stream_ == nullptr) {
    stream_ = std::make_shared<StreamClient>(*connection().recurrent);
    Note(streams_, stream_);
  }
  return stream_;
}

std::shared_ptr<ApplyClient> Line::Apply(const v1::Operation& operation) {
  auto call = std::make_shared<ApplyClient>(*connection().sessions, operation);
  Note(calls_, call);
  return call;
}

void Line::Cut() {
  wire_.Cut();
  stream_.reset();
  connection_.reset();
}

// The caller gives up on what it will not hear of.
void Line::Freeze() {
  wire_.Freeze();
  for (const auto& one : streams_) {
    if (const auto stream = one.lock()) stream->Cancel();
  }
  for (const auto& one : calls_) {
    if (const auto call = one.lock()) call->Cancel();
  }
  stream_.reset();
  connection_.reset();
}

}  // namespace rnnserve
