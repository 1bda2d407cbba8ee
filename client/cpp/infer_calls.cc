// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/infer_calls.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "base/field_error.h"
#include "base/status_macros.h"

namespace rnnserve::client {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

InferCalls::InferCalls(std::vector<std::string> targets, ClientOptions options, Resolve resolve)
    : options_(std::move(options)),
      servers_(targets, options_.load_balancing),
      lookup_(std::move(targets), std::move(resolve)) {}

InferCalls::~InferCalls() {
  if (looker_.joinable()) looker_.join();
}

absl::Status InferCalls::Run(milliseconds timeout, const v1::InferRequest& request, v1::InferResponse& reply,
                             std::function<v1::InferRequest()> with_weights) {
  LookUp(Clock::now());
  const TryTime began = Clock::now();
  const std::vector<std::string> order = servers_.BeginCall(began);
  std::vector<size_t> indices(order.size());
  std::iota(indices.begin(), indices.end(), size_t{0});
  Tries tries(indices, began, std::random_device()());
  v1::InferRequest whole;
  const v1::InferRequest* asked = &request;
  milliseconds left = timeout;
  while (true) {
    const std::string& server = order[tries.server()];
    absl::Status status = Call(server, left, *asked, reply);
    if (with_weights != nullptr && ReasonOf(status) == "FINGERPRINT_EVICTED") {
      whole = std::exchange(with_weights, nullptr)();
      asked = &whole;
      status = Call(server, left, *asked, reply);
    }
    const TryTime now = Clock::now();
    const bool has_answered = Note(server, status, now);
    servers_.Ended(server);
    if (!absl::IsUnavailable(status)) return tries.FinalStatus(status, now);
    const TryTime next = tries.Failed(status, now);
    const bool once = options_.patience.count() == 0;
    const milliseconds allowed = timeout.count() > 0 ? timeout : once ? std::chrono::hours(1 << 16) : options_.patience;
    // A dead address can take all of kFirstContactTime: the others are asked all the same.
    const bool lacks_contact = !has_answered && tries.HasAskedAll();
    const TryTime end = began + (lacks_contact ? std::min(allowed, kFirstContactTime) : allowed);
    if (next >= end || (once && tries.HasAskedAll())) return tries.FinalStatus(status, now);
    std::this_thread::sleep_until(next);
    if (timeout.count() > 0) {  // 0 would mean: no limit
      left = std::max(milliseconds(1), std::chrono::ceil<milliseconds>(timeout - (Clock::now() - began)));
    }
    servers_.Began(order[tries.server()]);
  }
}

absl::Status InferCalls::Call(const std::string& address, milliseconds timeout, const v1::InferRequest& request,
                              v1::InferResponse& reply) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Line> line, LineTo(address));
  return line->connection.Run(
      timeout, [&](grpc::ClientContext& context) { return line->stub->Infer(&context, request, &reply); });
}

absl::StatusOr<std::shared_ptr<InferCalls::Line>> InferCalls::LineTo(const std::string& address) {
  const bool is_one_of_several = servers_.addresses().size() > 1;
  MutexLock lock(mutex_);
  std::shared_ptr<Line>& line = lines_[address];
  if (line == nullptr) {
    ASSIGN_OR_RETURN(
        Connection connection,
        Connection::Make(address, options_, {.watches_health = is_one_of_several, .name = lookup_.NameOf(address)}));
    auto stub = v1::Recurrent::NewStub(connection.channel);
    line = std::make_shared<Line>(Line{std::move(connection), std::move(stub)});
  }
  return line;
}

bool InferCalls::Note(const std::string& address, const absl::Status& status, TryTime now) {
  if (status.ok()) servers_.Took(address);
  if (absl::IsUnavailable(status)) servers_.Refused(address, status, now);
  MutexLock lock(mutex_);
  if (absl::IsUnavailable(status)) look_at_ = std::min(look_at_, now + kLookAgainTime);
  has_answered_ = has_answered_ || IsFromServer(status);
  return has_answered_;
}

void InferCalls::LookUp(TryTime now) {
  if (!lookup_.has_names()) return;
  MutexLock lock(mutex_);
  if (looking_ || (has_looked_ && now < look_at_)) return;
  looking_ = true;
  if (looker_.joinable()) looker_.join();  // it has ended
  if (has_looked_) {
    looker_ = std::thread([this] { Look(); });
    return;
  }
  lock.unlock();
  Look();
}

void InferCalls::Look() {
  const std::vector<std::string> addresses = lookup_.Look();
  servers_.Set(addresses);
  MutexLock lock(mutex_);
  std::erase_if(lines_, [&](const auto& line) {
    return std::find(addresses.begin(), addresses.end(), line.first) == addresses.end();
  });
  has_looked_ = true;
  looking_ = false;
  look_at_ = Clock::now() + kLookTime;
}

}  // namespace rnnserve::client
