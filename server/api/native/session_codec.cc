// SPDX-License-Identifier: Apache-2.0
// Requests. Replies are in session_reply_codec.cc.
#include "server/api/native/session_codec.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "server/api/native/infer_codec.h"
#include "server/api/native/operator_codec.h"
#include "server/api/native/options_codec.h"
#include "server/api/native/tensor_codec.h"

namespace rnnserve {
namespace {

constexpr int kMaxSessionOutputs = 256;
constexpr int32_t kDefaultPageSize = 100;
constexpr int32_t kMaxPageSize = 1000;

absl::Status CheckOperationText(std::string_view field, const std::string& text) {
  if (text.size() <= kMaxOperationText) return absl::OkStatus();
  return FieldError(
      field, absl::StrCat(View(field), " has ", text.size(), " bytes; at most ", kMaxOperationText, " are taken"));
}

absl::StatusOr<absl::Duration> DecodeDuration(const google::protobuf::Duration& message, std::string_view field) {
  constexpr int64_t kMaxSeconds = int64_t{10'000} * 366 * 24 * 3600;
  const bool in_range = message.seconds() >= 0 && message.seconds() <= kMaxSeconds && message.nanos() >= 0 &&
                        message.nanos() < 1'000'000'000;
  const absl::Duration duration = absl::Seconds(message.seconds()) + absl::Nanoseconds(message.nanos());
  if (in_range && duration > absl::ZeroDuration()) return duration;
  return FieldError(field, absl::StrCat(View(field), " is ", message.seconds(), " s and ", message.nanos(),
                                        " ns; expected more than nothing, and nanos from 0 to 999999999"));
}

absl::StatusOr<std::vector<std::string>> DecodeOutputs(const google::protobuf::RepeatedPtrField<std::string>& outputs) {
  if (outputs.size() > kMaxSessionOutputs) {
    return FieldError(
        "outputs", absl::StrCat("outputs has ", outputs.size(), " names; no model has more than ", kMaxSessionOutputs));
  }
  return std::vector<std::string>(outputs.begin(), outputs.end());
}

absl::StatusOr<std::vector<NamedTensor>> DecodeState(const v1::StateTensors& state) {
  return DecodeTensors(state.tensors(), "state.tensors");
}

absl::Status DecodeTarget(const v1::OpenRequest& request, OpenCall& call) {
  const auto keep = [&](auto decoded) {
    if (!decoded.ok()) return decoded.status();
    call.target = *std::move(decoded);
    return absl::OkStatus();
  };
  if (request.target_case() != v1::OpenRequest::kOperator && request.weights_size() > 0) {
    return FieldError("weights",
                      "weights came next to a model, which holds its own; leave them out, or send the operator");
  }
  switch (request.target_case()) {
    case v1::OpenRequest::kOperator: {
      ASSIGN_OR_RETURN(call.weights, DecodeTensors(request.weights(), "weights"));
      return keep(DecodeOperator(request.operator_(), "operator"));
    }
    case v1::OpenRequest::kModel:
      return keep(DecodeModelRef(request.model(), "model"));
    case v1::OpenRequest::kFingerprint:
      return keep(DecodeFingerprint(request.fingerprint()));
    case v1::OpenRequest::TARGET_NOT_SET:
      if (request.must_exist()) return absl::OkStatus();
      break;
  }
  return FieldError("target", "the request names nothing to run; set one of model, fingerprint, operator");
}

absl::Status DecodeInitial(const v1::OpenRequest& request, OpenCall& call) {
  if (request.initial_case() == v1::OpenRequest::kState) {
    ASSIGN_OR_RETURN(call.state, DecodeState(request.state()));
  } else if (request.initial_case() == v1::OpenRequest::kStateOfSession) {
    call.state_of_session = request.state_of_session();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Durability>> DecodeDurability(v1::OpenRequest::Durability durability) {
  switch (durability) {
    case v1::OpenRequest::DURABILITY_UNSPECIFIED:
      return std::nullopt;
    case v1::OpenRequest::LOCAL:
      return Durability::kLocal;
    case v1::OpenRequest::INTERVAL:
      return Durability::kInterval;
    case v1::OpenRequest::SYNC:
      return Durability::kSync;
    default:
      return FieldError("durability",
                        absl::StrCat(static_cast<int>(durability), " is none of LOCAL (1), INTERVAL (2), SYNC (3)"));
  }
}

absl::StatusOr<DataType> DecodeStateType(v1::DataType type) {
  switch (type) {
    case v1::FLOAT:
    case v1::DOUBLE:
    case v1::FLOAT16:
    case v1::BFLOAT16:
      return static_cast<DataType>(type);
    default:
      return FieldError("state_type", absl::StrCat(static_cast<int>(type),
                                                   " is none of FLOAT (1), FLOAT16 (10), DOUBLE (11), BFLOAT16 (16)"));
  }
}

template <typename T>
absl::Status Move(absl::StatusOr<T> from, std::optional<T>& to) {
  if (!from.ok()) return from.status();
  to = *std::move(from);
  return absl::OkStatus();
}

absl::StatusOr<OperationKind> DecodeChunk(const v1::Chunk& message) {
  ChunkOp chunk;
  ASSIGN_OR_RETURN(chunk.inputs, DecodeTensors(message.inputs(), "inputs"));
  if (message.override_outputs()) {
    RETURN_IF_ERROR(Move(DecodeOutputs(message.outputs()), chunk.outputs));
  } else if (message.outputs_size() > 0) {
    return FieldError("outputs",
                      "outputs came without override_outputs; set it, or leave them out for the session's own");
  }
  return OperationKind(std::move(chunk));
}

absl::StatusOr<OperationKind> DecodeReset(const v1::Reset& message) {
  ResetOp reset;
  if (message.has_state()) {
    RETURN_IF_ERROR(Move(DecodeState(message.state()), reset.state));
  }
  return OperationKind(std::move(reset));
}

absl::StatusOr<OperationKind> DecodeSetState(const v1::SetState& message) {
  ASSIGN_OR_RETURN(std::vector<NamedTensor> state, DecodeState(message.state()));
  return OperationKind(SetStateOp{std::move(state), message.fingerprint(), message.force()});
}

absl::StatusOr<OperationKind> DecodeKind(const v1::Operation& operation) {
  const auto within = [](const char* prefix, absl::StatusOr<OperationKind> kind) -> absl::StatusOr<OperationKind> {
    if (!kind.ok()) return WithFieldPrefix(kind.status(), prefix);
    return kind;
  };
  switch (operation.kind_case()) {
    case v1::Operation::kChunk:
      return within("chunk.", DecodeChunk(operation.chunk()));
    case v1::Operation::kReset:
      return within("reset.", DecodeReset(operation.reset()));
    case v1::Operation::kSetState:
      return within("set_state.", DecodeSetState(operation.set_state()));
    case v1::Operation::kSelectRows: {
      const auto& rows = operation.select_rows().rows();
      return OperationKind(SelectRowsOp{std::vector<int64_t>(rows.begin(), rows.end())});
    }
    case v1::Operation::kRewind:
      return OperationKind(RewindOp{operation.rewind().checkpoint()});
    case v1::Operation::kClose:
      return OperationKind(CloseOp{operation.close().return_state()});
    default:
      return FieldError("kind",
                        "the operation has no kind; set one of chunk, reset, set_state, select_rows, rewind, close, "
                        "open, get_state, fork, checkpoint");
  }
}

}  // namespace

absl::StatusOr<OpenCall> DecodeOpen(const v1::OpenRequest& request) {
  OpenCall call;
  absl::Status status = CheckOperationText("request_id", request.request_id());
  if (status.ok()) status = CheckOperationText("name", request.name());
  if (status.ok()) status = CheckOperationText("engine", request.engine());
  if (status.ok() && request.attach() && request.name().empty()) {
    status = FieldError("attach", "attach is set without a name to attach to");
  }
  if (status.ok() && request.must_exist() && !request.attach()) {
    status = FieldError("must_exist", "must_exist is set without attach, and so every session would be a new one");
  }
  if (status.ok()) status = DecodeTarget(request, call);
  if (status.ok()) status = DecodeInitial(request, call);
  if (!status.ok()) return status;
  call.request_id = request.request_id();
  call.name = request.name();
  call.attach = request.attach();
  call.must_exist = request.must_exist();
  call.engine = request.engine();
  ASSIGN_OR_RETURN(call.options, DecodeOptions(request.options()));
  ASSIGN_OR_RETURN(call.outputs, DecodeOutputs(request.outputs()));
  ASSIGN_OR_RETURN(call.durability, DecodeDurability(request.durability()));
  if (request.has_idle_timeout()) {
    status = Move(DecodeDuration(request.idle_timeout(), "idle_timeout"), call.idle_timeout);
    if (!status.ok()) return status;
  }
  if (request.state_type() != v1::DATA_TYPE_UNSPECIFIED) {
    status = Move(DecodeStateType(request.state_type()), call.state_type);
    if (!status.ok()) return status;
  }
  if (request.has_rows()) call.rows = request.rows();
  if (request.has_max_in_flight()) call.max_in_flight = request.max_in_flight();
  if (request.has_window_operations()) call.window_operations = request.window_operations();
  if (request.has_window_bytes()) call.window_bytes = request.window_bytes();
  return call;
}

absl::StatusOr<OperationCall> DecodeOperation(const v1::Operation& operation, const OperationSender& sender) {
  OperationCall call{sender};
  RETURN_IF_ERROR(CheckOperationText("request_id", operation.request_id()));
  if (operation.priority() < -kMaxOperationPriority || operation.priority() > kMaxOperationPriority) {
    return FieldError("priority", absl::StrCat("priority is ", operation.priority(), "; expected ",
                                               -kMaxOperationPriority, " to ", kMaxOperationPriority));
  }
  if (operation.has_timeout()) {
    RETURN_IF_ERROR(Move(DecodeDuration(operation.timeout(), "timeout"), call.timeout));
  }
  ASSIGN_OR_RETURN(call.kind, DecodeKind(operation));
  call.session = operation.session();
  call.priority = operation.priority();
  if (operation.has_number()) call.number = operation.number();
  if (operation.has_owner_epoch()) call.owner_epoch = operation.owner_epoch();
  return call;
}

absl::StatusOr<ReadCall> DecodeGetState(const v1::GetStateRequest& request) {
  ReadCall call;
  call.session = request.session();
  if (request.has_after_number()) call.after_number = request.after_number();
  return call;
}

absl::StatusOr<ReadCall> DecodeCheckpoint(const v1::CheckpointRequest& request) {
  ReadCall call;
  call.session = request.session();
  if (request.has_after_number()) call.after_number = request.after_number();
  return call;
}

absl::StatusOr<ForkCall> DecodeFork(const v1::ForkRequest& request) {
  ForkCall call;
  RETURN_IF_ERROR(CheckOperationText("request_id", request.request_id()));
  for (int k = 0; k < request.names_size(); ++k) {
    RETURN_IF_ERROR(CheckOperationText(absl::StrCat("names[", k, "]"), request.names(k)));
    if (request.names(k).empty()) return FieldError(absl::StrCat("names[", k, "]"), "the fork's name is empty");
  }
  call.session = request.session();
  if (request.has_after_number()) call.after_number = request.after_number();
  call.request_id = request.request_id();
  if (request.has_count()) call.count = request.count();
  call.names.assign(request.names().begin(), request.names().end());
  return call;
}

absl::StatusOr<int64_t> DecodePageSize(const v1::ListSessionsRequest& request) {
  if (!request.has_page_size()) return kDefaultPageSize;
  if (request.page_size() >= 1 && request.page_size() <= kMaxPageSize) return request.page_size();
  return FieldError("page_size", absl::StrCat("page_size is ", request.page_size(), "; expected 1 to ", kMaxPageSize));
}

}  // namespace rnnserve
