// SPDX-License-Identifier: Apache-2.0
#include "server/api/health/health_service.h"

#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/rpc/call_end.h"
#include "server/rpc/message_bytes.h"
#include "server/rpc/status_table.h"

namespace rnnserve {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// A watcher's name is kept for as long as it watches; no model's name is nearly as long.
constexpr size_t kMaxHealthBytes = 4096;

absl::StatusOr<std::string> NameIn(grpc::ByteBuffer& bytes) {
  if (bytes.Length() > kMaxHealthBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the request has ", bytes.Length(),
                                                   " bytes; health knows no name of more than ", kMaxHealthBytes));
  }
  HealthCheckRequest request;
  if (absl::Status status = ParseBytes(bytes, request); !status.ok()) return status;
  return std::move(*request.mutable_service());
}

grpc::Status HealthRefusal(const absl::Status& status) {
  const WireError error = ToWireError(status);
  return {error.code, error.message, error.details};
}

absl::Status UnknownName(const std::string& name) {
  return absl::NotFoundError(absl::StrCat("nothing called '", name,
                                          "' has been served here; health knows services, models by name, "
                                          "engine/NAME, and the empty name for the whole server"));
}

grpc::ByteBuffer Reply(Health health) {
  HealthCheckResponse response;
  switch (health) {
    case Health::kServing:
      response.set_status(HealthCheckResponse::SERVING);
      break;
    case Health::kNotServing:
      response.set_status(HealthCheckResponse::NOT_SERVING);
      break;
    case Health::kUnknown:
      response.set_status(HealthCheckResponse::SERVICE_UNKNOWN);
      break;
  }
  return SerialiseBytes(response);
}

}  // namespace

void HealthService::Serve(Poller& poller) {
  ServeCheck(poller);
  ServeWatch(poller);
}

CallTask HealthService::ServeCheck(Poller& poller) {
  const Poller::QueueGuard guard(poller);
  grpc::ServerContext context;
  grpc::ByteBuffer request;
  grpc::ServerAsyncResponseWriter<grpc::ByteBuffer> responder(&context);
  const bool arrived = co_await Completion(
      [&](void* tag) { service_.RequestCheck(&context, &request, &responder, poller.queue(), poller.queue(), tag); });
  if (!arrived) co_return;
  ServeCheck(poller);
  const absl::StatusOr<std::string> name = NameIn(request);
  const Health health = name.ok() ? board_.Get(*name) : Health::kUnknown;
  const absl::Status status = name.ok() && health == Health::kUnknown ? UnknownName(*name) : name.status();
  check_metrics_->Ended(status.code());
  co_await Completion([&](void* tag) {
    if (!status.ok()) return responder.FinishWithError(HealthRefusal(status), tag);
    responder.Finish(Reply(health), grpc::Status::OK, tag);
  });
}

struct HealthService::WatchCall {
  grpc::ServerContext context;
  grpc::ByteBuffer request;
  grpc::ServerAsyncWriter<grpc::ByteBuffer> writer{&context};
  std::optional<HealthBoard::Watcher> watcher;
  CallEnd end{context, [this] {
                if (watcher) watcher->Stop();
              }};
};

CallTask HealthService::ServeWatch(Poller& poller) {
  const Poller::QueueGuard guard(poller);
  WatchCall call;
  const bool arrived = co_await Completion([&](void* tag) {
    call.context.AsyncNotifyWhenDone(call.end.tag());
    service_.RequestWatch(&call.context, &call.request, &call.writer, poller.queue(), poller.queue(), tag);
  });
  if (!arrived) co_return;
  ServeWatch(poller);

  absl::StatusOr<std::string> name = NameIn(call.request);
  absl::Status refused = name.status();
  const uint64_t connection = absl::HashOf(call.context.peer());
  if (refused.ok() && !watches_.Fits(connection, 1)) {
    refused = absl::ResourceExhaustedError(
        absl::StrCat("health has ", watches_.used(), " watchers, ", watches_.held(connection),
                     " of them this connection's, and takes ", watches_.most(), "; ask with Check, or watch later"));
  }
  if (!refused.ok()) {
    watch_metrics_->Ended(refused.code());
    co_await Completion([&](void* tag) { call.writer.Finish(HealthRefusal(refused), tag); });
    co_await call.end;
    co_return;
  }
  watches_.Take(connection, 1);
  call.watcher.emplace(board_, *std::move(name));
  std::optional<Health> told;
  while (const std::optional<Health> health = co_await call.watcher->NextChange()) {
    if (health == told) continue;
    told = health;
    const bool written = co_await Completion([&](void* tag) { call.writer.Write(Reply(*health), tag); });
    if (!written) break;
  }
  // Only a caller that has gone ends a watch, so that is no error. Both go on on the poller.
  watch_metrics_->Ended(absl::StatusCode::kOk);
  co_await Completion([&](void* tag) { call.writer.Finish(grpc::Status::CANCELLED, tag); });
  co_await call.end;
  watches_.Release(connection, 1);
}

}  // namespace rnnserve
