// SPDX-License-Identifier: Apache-2.0
#include "server/api/native/model_upload.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "server/rpc/message_bytes.h"

namespace rnnserve {
namespace {

// Larger messages are copied elsewhere.
constexpr size_t kMaxPollerChunk = 64 << 10;
// Memory is taken for so many bytes of a file at once.
constexpr int64_t kBlock = 16 << 20;

}  // namespace

ModelUpload::ModelUpload(ModelsService* service, std::shared_ptr<StreamCall> call)
    : service_(service),
      call_(std::move(call)),
      from_{call_->caller(), call_->peer()},
      file_(service->core_->models().max_file_bytes()) {}

Task<absl::Status> ModelUpload::OnMessage(grpc::ByteBuffer bytes, absl::StatusOr<CallAdmission::InFlight> in_flight) {
  if (absl::Status open = service_->is_open_(); !open.ok()) co_return open;
  // Of a file that has begun, the memory is set aside: its chunks wait for no other bound.
  if (!in_flight.ok() && !file_.has_begun()) co_return in_flight.status();
  if (bytes.Length() > kMaxPollerChunk) co_await call_->LeavePoller();
  v1::UploadRequest message;
  absl::Status status = ParseBytes(bytes, message);
  bytes.Clear();
  if (status.ok()) status = Add(message);
  call_->Parsed();
  co_return status;
}

absl::Status ModelUpload::Add(const v1::UploadRequest& message) {
  const bool begins = !file_.has_begun();
  if (absl::Status added = file_.Add(message); !added.ok()) return added;
  if (!begins) return Charge();
  absl::Status known = service_->core_->CheckEngineName(file_.upload().engine);
  return WithFieldPrefix(known, "begin.");
}

// Not all at once: a caller that says it will send a large file, and does not, keeps no memory from others. The budget
// promises twice a share's bytes: also what protobuf makes of the file.
absl::Status ModelUpload::Charge() {
  const int64_t due = std::min((file_.received() + kBlock - 1) / kBlock * kBlock, file_.file_bytes());
  if (due <= charged_) return absl::OkStatus();
  absl::StatusOr<ByteBudget::Share> memory = service_->core_->TakeMemory(call_->caller_id(), due - charged_);
  if (!memory.ok()) return memory.status();
  memory_.push_back(*std::move(memory));
  charged_ = due;
  return absl::OkStatus();
}

Task<absl::Status> ModelUpload::OnEnd(bool given_up) {
  if (given_up) {
    co_return absl::DeadlineExceededError(absl::StrCat(
        file_.received(), " of ", file_.file_bytes(), " bytes came in the time that an upload may take: ",
        absl::FormatDuration(call_->limits().max_pause), " from one message to the next, and ",
        absl::FormatDuration(call_->limits().max_age), " in all (--max_call_duration); nothing was loaded"));
  }
  co_await call_->LeavePoller();
  if (call_->cancelled()->load(std::memory_order_relaxed)) co_return absl::CancelledError("the caller cancelled it");
  co_return Load();
}

absl::Status ModelUpload::Load() {
  absl::StatusOr<std::string> file = file_.Take();
  if (!file.ok()) return file.status();
  for (ByteBudget::Share& share : memory_) share.Took();
  v1::LoadResponse response;
  absl::Status loaded =
      service_->LoadAs(from_, {file_.upload(), std::make_shared<const std::string>(*std::move(file))}, response);
  if (!loaded.ok()) return FieldOf(loaded) == "onnx_file" ? WithField(std::move(loaded), "chunk") : loaded;
  const std::string bytes = response.SerializeAsString();
  call_->Send(grpc::Slice(bytes));
  return absl::OkStatus();
}

}  // namespace rnnserve
