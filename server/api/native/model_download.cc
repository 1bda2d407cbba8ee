// SPDX-License-Identifier: Apache-2.0
#include "server/api/native/model_download.h"

#include <utility>

#include "base/steady_now.h"
#include "server/rpc/message_bytes.h"

namespace rnnserve {
namespace {

// Small: the poller thread copies the pieces for which there is no room at once.
constexpr size_t kPieceBytes = 256 << 10;

}  // namespace

Task<absl::Status> ModelDownload::OnMessage(grpc::ByteBuffer bytes, absl::StatusOr<CallAdmission::InFlight> in_flight) {
  if (absl::Status open = service_->is_open_(); !open.ok()) co_return open;
  if (!in_flight.ok()) co_return in_flight.status();
  if (file_ != nullptr) co_return absl::InvalidArgumentError("a second message came; a call downloads one model");
  v1::DownloadRequest request;
  absl::Status status = ParseBytes(bytes, request);
  bytes.Clear();
  call_->Parsed();
  if (!status.ok()) co_return status;
  co_await call_->LeavePoller();
  status = Begin(request);
  if (!status.ok()) co_return status;
  Task<absl::Status> sending = SendFile();
  status = co_await sending;
  co_return status;
}

absl::Status ModelDownload::Begin(const v1::DownloadRequest& request) {
  const absl::StatusOr<LoadedModel> loaded = service_->FindToDownload(*call_->caller(), request);
  if (!loaded.ok()) return loaded.status();
  absl::StatusOr<std::shared_ptr<const std::string>> file =
      service_->core_->models().FileOf(*loaded, [&](int64_t file_bytes) -> absl::Status {
        // The file, and what it is compared by: protobuf's copy and the weights.
        absl::StatusOr<ByteBudget::Share> memory = service_->core_->TakeMemory(call_->caller_id(), 2 * file_bytes);
        if (!memory.ok()) return memory.status();
        memory_ = *std::move(memory);
        return absl::OkStatus();
      });
  if (!file.ok()) return file.status();
  if (memory_) memory_->ShrinkTo(static_cast<int64_t>((*file)->size()));
  file_ = *std::move(file);
  v1::DownloadResponse response;
  service_->Encode(*loaded, *response.mutable_begin()->mutable_model());
  response.mutable_begin()->set_file_bytes(static_cast<int64_t>(file_->size()));
  Send(response);
  return absl::OkStatus();
}

Task<absl::Status> ModelDownload::SendFile() {
  const absl::Time end = SteadyNow() + call_->limits().max_age;
  v1::DownloadResponse response;
  for (size_t at = 0; at < file_->size(); at += kPieceBytes) {
    co_await call_->UntilRoom();
    if (call_->GaveUpReplies() || call_->cancelled()->load(std::memory_order_relaxed)) {
      co_return absl::CancelledError("the caller is gone");
    }
    if (SteadyNow() > end) {
      co_return absl::DeadlineExceededError("the caller read too slowly (--max_call_duration)");
    }
    response.set_chunk(file_->substr(at, kPieceBytes));
    Send(response);
  }
  co_return absl::OkStatus();
}

void ModelDownload::Send(const v1::DownloadResponse& response) {
  const size_t size = response.ByteSizeLong();
  grpc::Slice slice(size);
  response.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));  // ours alone
  call_->Send(std::move(slice));
}

}  // namespace rnnserve
