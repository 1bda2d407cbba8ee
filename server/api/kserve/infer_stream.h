// SPDX-License-Identifier: Apache-2.0
// ModelStreamInfer: requests of any models and sequences over one stream, each answered by a message of its own. Those
// of one sequence keep their order; an error is answered like any other request, and the stream goes on.
#pragma once

#include <memory>

#include "server/api/kserve/inference_service.h"

namespace rnnserve::kserve {

class InferStream final : public StreamHandler {
 public:
  InferStream(InferenceService* service, std::shared_ptr<StreamCall> call)
      : service_(service), call_(std::move(call)) {}

  Task<absl::Status> OnMessage(grpc::ByteBuffer bytes, absl::StatusOr<CallAdmission::InFlight> in_flight) override;
  // The protocol has no word for it: new runs and sequences are refused; sequences that have begun go on to their end.
  void OnDrain(absl::Time) override {}

 private:
  class Message;
  using MessagePtr = std::shared_ptr<Message>;

  Task<absl::Status> Start(const MessagePtr& message);
  void RunInSequence(const MessagePtr& message, InferRequest request);
  void RunWhole(const MessagePtr& message, InferRunPtr accepted);
  // Answers the request, by its response if `status` is OK.
  void Finish(const MessagePtr& message, const absl::Status& status, std::optional<ByteBudget::Share> held);

  InferenceService* const service_;
  const std::shared_ptr<StreamCall> call_;
};

}  // namespace rnnserve::kserve
