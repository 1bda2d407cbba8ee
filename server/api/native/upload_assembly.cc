// SPDX-License-Identifier: Apache-2.0
#include "server/api/native/upload_assembly.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "server/api/native/model_codec.h"

namespace rnnserve {

absl::Status UploadAssembly::Add(const v1::UploadRequest& message) {
  switch (message.part_case()) {
    case v1::UploadRequest::kBegin:
      return WithFieldPrefix(Begin(message.begin()), "begin.");
    case v1::UploadRequest::kChunk:
      return AddChunk(message.chunk());
    case v1::UploadRequest::PART_NOT_SET:
      break;
  }
  return FieldError("part", "the message brings nothing; the first one has begin, all further ones chunk");
}

absl::Status UploadAssembly::Begin(const v1::UploadRequest::Begin& begin) {
  if (upload_) {
    return absl::InvalidArgumentError(
        absl::StrCat("a second begin came, after ", received(), " bytes of the file; a file needs a call of its own"));
  }
  absl::StatusOr<Upload> upload = DecodeUpload(begin);
  if (!upload.ok()) return upload.status();
  if (begin.file_bytes() < 1 || begin.file_bytes() > max_file_bytes_) {
    return WithLimit(FieldError("file_bytes", absl::StrCat("a file has 1 to ", max_file_bytes_,
                                                           " bytes (--model_weight_bytes, and at "
                                                           "most the 2 GiB that protobuf reads), but this one has ",
                                                           begin.file_bytes())),
                     {max_file_bytes_, begin.file_bytes()});
  }
  upload_ = *std::move(upload);
  file_bytes_ = begin.file_bytes();
  return absl::OkStatus();
}

absl::Status UploadAssembly::AddChunk(const std::string& chunk) {
  const auto bytes = static_cast<int64_t>(chunk.size());
  if (!upload_)
    return FieldError("chunk", "the first message is a chunk; send begin, with the file's name and size, before");
  if (bytes < 1 || bytes > kMaxChunkBytes) {
    return FieldError("chunk", absl::StrCat("a chunk has 1 to ", kMaxChunkBytes, " bytes, but this one has ", bytes));
  }
  if (bytes > file_bytes_ - received()) {
    return FieldError("chunk", absl::StrCat("begin.file_bytes is ", file_bytes_, ", but with this chunk ",
                                            received() + bytes, " bytes have come; tell the file's size"));
  }
  if (file_.empty()) file_.reserve(static_cast<size_t>(file_bytes_));  // the kernel gives its pages as they are written
  file_ += chunk;
  return absl::OkStatus();
}

absl::StatusOr<std::string> UploadAssembly::Take() {
  if (!upload_) return absl::InvalidArgumentError("the call brought no message; send begin and the file's bytes");
  if (received() == file_bytes_) return std::move(file_);
  return FieldError("begin.file_bytes", absl::StrCat("the call ended after ", received(), " of ", file_bytes_,
                                                     " bytes; nothing was loaded, send the whole file again"));
}

}  // namespace rnnserve
