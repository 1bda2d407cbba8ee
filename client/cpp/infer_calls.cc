// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/infer_calls.h"

#include <algorithm>
#include <random>
#include <thread>

namespace rnnserve::client {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

InferCalls::InferCalls(std::vector<Connection> servers, milliseconds patience)
    : patience_(patience), servers_(servers.size()) {
  for (Connection& server : servers) {
    auto stub = v1::Recurrent::NewStub(server.channel);
    lines_.push_back({std::move(server), std::move(stub)});
  }
}

absl::Status InferCalls::Run(milliseconds timeout, const v1::InferRequest& request, v1::InferResponse& reply) {
  const TryTime began = Clock::now();
  Tries tries(InOrder(began), began, std::random_device()());
  milliseconds left = timeout;
  while (true) {
    const size_t server = tries.server();
    const Line& line = lines_[server];
    const absl::Status status = line.connection.Run(
        left, [&](grpc::ClientContext& context) { return line.stub->Infer(&context, request, &reply); });
    const TryTime now = Clock::now();
    const bool has_answered = Note(server, status, now);
    if (!absl::IsUnavailable(status)) return tries.FinalStatus(status, now);
    const TryTime next = tries.Failed(status, now);
    const milliseconds allowed = timeout.count() > 0 ? timeout : patience_;
    // A dead address can take all of kFirstContactTime: the others are asked all the same.
    const bool lacks_contact = !has_answered && tries.HasAskedAll();
    const TryTime end = began + (lacks_contact ? std::min(allowed, kFirstContactTime) : allowed);
    if (patience_.count() == 0 || next >= end) return tries.FinalStatus(status, now);
    std::this_thread::sleep_until(next);
    if (timeout.count() > 0) {  // 0 would mean: no limit
      left = std::max(milliseconds(1), std::chrono::ceil<milliseconds>(timeout - (Clock::now() - began)));
    }
  }
}

std::vector<size_t> InferCalls::InOrder(TryTime now) const {
  MutexLock lock(mutex_);
  return servers_.InOrder(now);
}

bool InferCalls::Note(size_t server, const absl::Status& status, TryTime now) {
  MutexLock lock(mutex_);
  has_answered_ = has_answered_ || IsFromServer(status);
  if (status.ok()) servers_.Took(server);
  if (absl::IsUnavailable(status)) servers_.Refused(server, status, now);
  return has_answered_;
}

}  // namespace rnnserve::client
