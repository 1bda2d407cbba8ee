// SPDX-License-Identifier: Apache-2.0
// Files of models, piece by piece: Models.Upload and Models.Download. Inside the library only: it names gRPC.
#pragma once

#include <grpcpp/client_context.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "client/cpp/types.h"
#include "rnnserve/v1/models.grpc.pb.h"

namespace rnnserve::client {

// Sends `begin` and the file's bytes; stops where the server refuses the rest.
grpc::Status SendFile(v1::Models::Stub& models, grpc::ClientContext& context, const v1::UploadRequest& begin,
                      std::string_view file, const Progress& progress, v1::LoadResponse& reply);

// Both functions outlive it.
class FileReceiver {
 public:
  FileReceiver(const std::function<absl::Status(std::string_view)>& write, const Progress& progress)
      : write_(write), progress_(progress) {}

  grpc::Status Receive(v1::Models::Stub& models, grpc::ClientContext& context, const v1::DownloadRequest& request);
  // OK if the whole file has come and was written; `call`: how the call ended.
  absl::Status Whole(const absl::Status& call) const;
  const v1::ModelInfo& model() const { return begin_.model(); }

 private:
  absl::Status Take(v1::DownloadResponse& message);

  const std::function<absl::Status(std::string_view)>& write_;
  const Progress& progress_;
  v1::DownloadResponse::Begin begin_;
  int64_t received_ = 0;
  absl::Status written_;
};

}  // namespace rnnserve::client
