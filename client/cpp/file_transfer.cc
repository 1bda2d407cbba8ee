// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/file_transfer.h"

#include <memory>

#include "absl/strings/str_cat.h"

namespace rnnserve::client {
namespace {

constexpr size_t kPieceBytes = 1 << 20;  // the server takes no larger ones

}  // namespace

grpc::Status SendFile(v1::Models::Stub& models, grpc::ClientContext& context, const v1::UploadRequest& begin,
                      std::string_view file, const Progress& progress, v1::LoadResponse& reply) {
  const std::unique_ptr<grpc::ClientWriter<v1::UploadRequest>> writer = models.Upload(&context, &reply);
  bool is_open = writer->Write(begin);
  v1::UploadRequest message;
  for (size_t at = 0; is_open && at < file.size();) {
    const std::string_view piece = file.substr(at, kPieceBytes);
    message.set_chunk(piece.data(), piece.size());
    is_open = writer->Write(message);
    at += piece.size();
    if (is_open && progress) progress(static_cast<int64_t>(at), static_cast<int64_t>(file.size()));
  }
  if (is_open) writer->WritesDone();
  return writer->Finish();
}

grpc::Status FileReceiver::Receive(v1::Models::Stub& models, grpc::ClientContext& context,
                                   const v1::DownloadRequest& request) {
  const std::unique_ptr<grpc::ClientReader<v1::DownloadResponse>> reader = models.Download(&context, request);
  v1::DownloadResponse message;
  while (written_.ok() && reader->Read(&message)) written_ = Take(message);
  if (!written_.ok()) context.TryCancel();
  return reader->Finish();
}

absl::Status FileReceiver::Take(v1::DownloadResponse& message) {
  if (message.has_begin()) {
    begin_.Swap(message.mutable_begin());
    return absl::OkStatus();
  }
  if (absl::Status written = write_(message.chunk()); !written.ok()) return written;
  received_ += static_cast<int64_t>(message.chunk().size());
  if (progress_) progress_(received_, begin_.file_bytes());
  return absl::OkStatus();
}

absl::Status FileReceiver::Whole(const absl::Status& call) const {
  if (!written_.ok()) return written_;
  if (!call.ok() || received_ == begin_.file_bytes()) return call;
  return absl::DataLossError(absl::StrCat("the server sent ", received_, " of ", begin_.file_bytes(), " bytes"));
}

}  // namespace rnnserve::client
