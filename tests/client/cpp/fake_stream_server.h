// SPDX-License-Identifier: Apache-2.0
// FakeSessionServer over gRPC, for one session and its forks, with mishaps on demand.
#pragma once

#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "rnnserve/v1/recurrent.grpc.pb.h"
#include "rnnserve/v1/sessions.grpc.pb.h"
#include "tests/client/cpp/fake_session_server.h"

namespace rnnserve::client {

class FakeStreamServer final : private v1::Sessions::Service, private v1::Recurrent::Service {
 public:
  FakeStreamServer() {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(static_cast<v1::Sessions::Service*>(this));
    builder.RegisterService(static_cast<v1::Recurrent::Service*>(this));
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~FakeStreamServer() override { server_->Shutdown(std::chrono::system_clock::now()); }

  const std::string& address() const { return address_; }

  // Every `operations` operations the stream breaks, before or after the last of them is applied, unanswered.
  void CutEvery(int operations) {
    Set([&] { cut_every_ = operations; });
  }
  void Drain() {
    Set([&] {
      draining_ = true;
      session_.Drain();
    });
  }
  // The process is another one from now on.
  void Kill() {
    Set([&] {
      session_.Kill();
      forks_.clear();
    });
  }
  // The process ends.
  void Stop() { server_->Shutdown(std::chrono::system_clock::now()); }
  // Sessions are durable, with a record after so many changes; the other server, too, goes on with them.
  void ShareStoreWith(FakeStreamServer& other, uint64_t write_every) {
    for (FakeStreamServer* server : {this, &other}) {
      server->Set([&] {
        server->session_.WriteEvery(write_every);
        server->is_durable_ = true;
        server->peer_ = server == this ? &other : this;
      });
    }
  }
  // Another client attaches to the session.
  void AttachAnother() {
    Set([&] { session_.Attach(); });
  }
  void AbortNext(const std::string& reason) {
    Set([&] { session_.AbortNext(reason); });
  }
  // Takes operations and says nothing.
  void FallSilent() {
    Set([&] { silent_ = true; });
  }
  void SetFingerprint(const std::string& fingerprint) {
    Set([&] { fingerprint_ = fingerprint; });
  }
  // So many Opens are refused; if `leaving`, in the words of a server that leaves.
  void RefuseOpens(int count, bool leaving) {
    Set([&] {
      refused_opens_ = count;
      leaving_ = leaving;
    });
  }
  // Refuses every Open, as one whose engine is out of service.
  void LoseEngine() {
    Set([&] { has_engine_ = false; });
  }
  void SetServing(bool serving) { server_->GetHealthCheckService()->SetServingStatus(serving); }
  // Those that were not refused.
  int opens() {
    std::lock_guard lock(mutex_);
    return opens_;
  }
  // What calls said where they belong, in turn.
  std::vector<std::string> routes() {
    std::lock_guard lock(mutex_);
    return routes_;
  }
  // Under which sessions were opened.
  std::set<std::string> request_ids() {
    std::lock_guard lock(mutex_);
    return request_ids_;
  }
  std::vector<std::string> log() {
    std::lock_guard lock(mutex_);
    return session_.log();
  }

 private:
  template <typename Change>
  void Set(Change change) {
    std::lock_guard lock(mutex_);
    change();
  }

  // With mutex_ held.
  void SeeRoute(const grpc::ServerContext& context) {
    const auto found = context.client_metadata().find("x-session-route");
    routes_.emplace_back(
        found == context.client_metadata().end() ? "none" : std::string(found->second.data(), found->second.size()));
  }

  grpc::Status Open(grpc::ServerContext* context, const v1::OpenRequest* request, v1::OpenResponse* response) override {
    std::lock_guard lock(mutex_);
    SeeRoute(*context);
    request_ids_.insert(request->request_id());
    if (refused_opens_ > 0) {
      --refused_opens_;
      google::rpc::RetryInfo retry;
      retry.mutable_retry_delay()->set_seconds(1);
      google::rpc::Status details;
      details.add_details()->PackFrom(retry);
      return {grpc::UNAVAILABLE, "leaving", leaving_ ? details.SerializeAsString() : ""};
    }
    if (!has_engine_) {
      google::rpc::ErrorInfo info;
      info.set_reason("ENGINE_OUT_OF_SERVICE");
      google::rpc::Status details;
      details.add_details()->PackFrom(info);
      return {grpc::UNAVAILABLE, "the device is lost", details.SerializeAsString()};
    }
    if (draining_) return {grpc::UNAVAILABLE, "leaving"};
    ++opens_;
    if (is_durable_) response->set_durability(request->durability());
    response->set_session(session_.Open(request->has_state() ? &request->state() : nullptr));
    response->set_fingerprint(fingerprint_);
    response->set_created(true);
    response->set_owner_epoch(session_.owner_epoch());
    response->set_max_in_flight(request->max_in_flight());
    return grpc::Status::OK;
  }

  grpc::Status Stream(grpc::ServerContext* context,
                      grpc::ServerReaderWriter<v1::StreamResponse, v1::StreamRequest>* stream) override {
    Set([&] { SeeRoute(*context); });
    v1::StreamRequest request;
    while (stream->Read(&request)) {
      v1::StreamResponse response;
      for (const v1::Operation& operation : request.operations()) {
        std::lock_guard lock(mutex_);
        const bool is_cut = cut_every_ > 0 && ++seen_ % cut_every_ == 0;
        if (is_cut && seen_ % 2 == 0) return {grpc::UNAVAILABLE, "cut"};
        if (peer_ != nullptr && operation.session() != session_.key()) TakeOver(operation.session());
        v1::OperationReply reply = Apply(operation);
        if (is_cut) return {grpc::INTERNAL, "cut"};
        if (!silent_) *response.add_replies() = std::move(reply);
        if (draining_) response.mutable_drain();
      }
      stream->Write(response);
    }
    return grpc::Status::OK;
  }

  void TakeOver(const std::string& key) {
    std::lock_guard lock(peer_->mutex_);
    if (peer_->session_.key() != key) return;
    session_ = peer_->session_;
    session_.TakeOver();
  }

  v1::OperationReply Apply(const v1::Operation& operation) {
    const auto fork = forks_.find(operation.session());
    if (fork != forks_.end()) return fork->second.Apply(operation);
    if (!operation.has_fork() || operation.session() != session_.key()) return session_.Apply(operation);
    FakeSessionServer made = session_.Fork();
    v1::OperationReply reply;
    reply.set_request_id(operation.request_id());
    reply.mutable_fork()->add_sessions(made.key());
    reply.mutable_fork()->set_number(made.last_applied());
    reply.mutable_fork()->set_owner_epoch(made.owner_epoch());
    forks_.emplace(made.key(), std::move(made));
    return reply;
  }

  std::mutex mutex_;
  // Guarded by mutex_.
  FakeSessionServer session_;
  std::map<std::string, FakeSessionServer> forks_;
  std::string fingerprint_ = "f";
  int cut_every_ = 0;
  int seen_ = 0;
  bool draining_ = false;
  bool silent_ = false;
  std::vector<std::string> routes_;
  std::set<std::string> request_ids_;
  int opens_ = 0;
  bool is_durable_ = false;
  FakeStreamServer* peer_ = nullptr;  // with the same store
  int refused_opens_ = 0;
  bool leaving_ = false;
  bool has_engine_ = true;

  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace rnnserve::client
