// SPDX-License-Identifier: Apache-2.0
// One Models.Download: sends a model's file piece by piece, as the caller takes them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "server/admission/byte_budget.h"
#include "server/api/native/models_service.h"
#include "server/rpc/stream_call.h"

namespace rnnserve {

class ModelDownload final : public StreamHandler {
 public:
  ModelDownload(ModelsService* service, std::shared_ptr<StreamCall> call) : service_(service), call_(std::move(call)) {}

  Task<absl::Status> OnMessage(grpc::ByteBuffer message, absl::StatusOr<CallAdmission::InFlight> in_flight) override;
  // One that has begun goes on.
  void OnDrain(absl::Time) override {}

 private:
  // Finds and reads the file, and sends the first message.
  absl::Status Begin(const v1::DownloadRequest& request);
  Task<absl::Status> SendFile();
  void Send(const v1::DownloadResponse& response);

  ModelsService* const service_;
  const std::shared_ptr<StreamCall> call_;
  std::optional<ByteBudget::Share> memory_;  // of a file that is read for this call
  std::shared_ptr<const std::string> file_;
};

}  // namespace rnnserve
