// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/unknown_methods.h"

#include "absl/status/status.h"

namespace rnnserve {

CallTask UnknownMethods::ServeOne(Poller& poller) {
  const Poller::QueueGuard guard(poller);
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream(&context);
  const bool arrived = co_await Completion(
      [&](void* tag) { service_.RequestCall(&context, &stream, poller.queue(), poller.queue(), tag); });
  if (!arrived) co_return;
  ServeOne(poller);
  metrics_->Ended(absl::StatusCode::kUnimplemented);
  // Not what it is called: names come from callers.
  co_await Completion([&](void* tag) {
    stream.Finish({grpc::StatusCode::UNIMPLEMENTED, "there is no such method here"}, tag);
  });
}

}  // namespace rnnserve
