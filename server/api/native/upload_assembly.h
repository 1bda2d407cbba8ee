// SPDX-License-Identifier: Apache-2.0
// The messages of one Models.Upload, in their order: first `begin`, then the file's bytes, as many as `begin` says. An
// error leaves nothing to go on with. No gRPC; one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rnnserve/v1/models.pb.h"
#include "server/models/model_store.h"

namespace rnnserve {

class UploadAssembly {
 public:
  static constexpr int64_t kMaxChunkBytes = 1 << 20;

  explicit UploadAssembly(int64_t max_file_bytes) : max_file_bytes_(max_file_bytes) {}

  bool has_begun() const { return upload_.has_value(); }
  // As `begin` says; 0 before it.
  int64_t file_bytes() const { return file_bytes_; }
  // That have come.
  int64_t received() const { return static_cast<int64_t>(file_.size()); }
  // The name and settings, without a tenant. Once it has begun.
  const Upload& upload() const { return *upload_; }

  // The next message. Memory for the file is taken with its first chunk.
  absl::Status Add(const v1::UploadRequest& message);
  // The whole file, after the last message.
  absl::StatusOr<std::string> Take();

 private:
  absl::Status Begin(const v1::UploadRequest::Begin& begin);
  absl::Status AddChunk(const std::string& chunk);

  const int64_t max_file_bytes_;
  std::optional<Upload> upload_;
  int64_t file_bytes_ = 0;
  std::string file_;
};

}  // namespace rnnserve
