// SPDX-License-Identifier: Apache-2.0
// One Models.Upload: gathers the file's bytes, then loads it as Models.Load would.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "server/admission/byte_budget.h"
#include "server/api/native/models_service.h"
#include "server/api/native/upload_assembly.h"
#include "server/rpc/stream_call.h"

namespace rnnserve {

class ModelUpload final : public StreamHandler {
 public:
  ModelUpload(ModelsService* service, std::shared_ptr<StreamCall> call);

  Task<absl::Status> OnMessage(grpc::ByteBuffer message, absl::StatusOr<CallAdmission::InFlight> in_flight) override;
  Task<absl::Status> OnEnd(bool given_up) override;
  // A draining server refuses the next chunk.
  void OnDrain(absl::Time) override {}

 private:
  absl::Status Add(const v1::UploadRequest& message);
  // Takes memory for what has come.
  absl::Status Charge();
  absl::Status Load();

  ModelsService* const service_;
  const std::shared_ptr<StreamCall> call_;
  const ModelCaller from_;
  std::vector<ByteBudget::Share> memory_;
  int64_t charged_ = 0;  // bytes of memory_
  UploadAssembly file_;
};

}  // namespace rnnserve
