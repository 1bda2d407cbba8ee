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
    const size_t place = tries.place();
    const Line& line = lines_[place];
    const absl::Status status = line.connection.Run(
        left, [&](grpc::ClientContext& context) { return line.stub->Infer(&context, request, &reply); });
    const TryTime now = Clock::now();
    const bool is_heard = Hear(place, status, now);
    if (!absl::IsUnavailable(status)) return tries.Told(status, now);
    const TryTime next = tries.Failed(status, now);
    const milliseconds allowed = timeout.count() > 0 ? timeout : patience_;
    // An address that is dead can take all of the time for strangers: the others are asked all the same.
    const bool is_stranger = !is_heard && tries.HasAskedAll();
    const TryTime end = began + (is_stranger ? std::min(allowed, kStrangerTime) : allowed);
    if (patience_.count() == 0 || next >= end) return tries.Told(status, now);
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

bool InferCalls::Hear(size_t place, const absl::Status& status, TryTime now) {
  MutexLock lock(mutex_);
  is_heard_ = is_heard_ || IsHeard(status);
  if (status.ok()) servers_.Took(place);
  if (absl::IsUnavailable(status)) servers_.Refused(place, status, now);
  return is_heard_;
}

}  // namespace rnnserve::client
