// SPDX-License-Identifier: Apache-2.0
#include "server/sessions/execution/record_codec.h"

#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "base/recycled.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "server/sessions/execution/record.pb.h"

namespace rnnserve {
namespace {

constexpr uint32_t kVersion = 1;
constexpr size_t kChecksumBytes = 4;

void SetTensor(const OutputTensor& tensor, store::Tensor& to) {
  to.set_name(tensor.name);
  to.set_type(static_cast<int32_t>(tensor.type));
  for (const int64_t axis : tensor.shape) to.add_shape(axis);
  to.set_elements(tensor.bytes.data(), tensor.bytes.size());
}

OutputTensor TensorOf(const store::Tensor& from) {
  return {from.name(), static_cast<DataType>(from.type()), Shape(from.shape().begin(), from.shape().end()),
          Elements(std::string_view(from.elements()))};
}

NamedTensor ViewOf(const store::Tensor& from) {
  return {from.name(),
          {static_cast<DataType>(from.type()), Shape(from.shape().begin(), from.shape().end()),
           std::as_bytes(std::span(from.elements()))}};
}

void SetModel(const SessionModel& model, store::Record& to) {
  const PinnedModel& pinned = *model.pinned();
  to.set_model(model.model_name());
  to.set_model_version(pinned.version.value_or(0));
  to.set_fingerprint(model.fingerprint());
  to.set_engine(pinned.engines.names);
  to.set_clip_cell_input(pinned.run_options.clip_cell_input);
  to.set_empty_row_state(static_cast<int32_t>(pinned.run_options.empty_row_state));
  to.set_deterministic(pinned.engine_options.deterministic);
  to.set_allow_reduced_precision(pinned.engine_options.allow_reduced_precision);
  to.set_weights(static_cast<int32_t>(pinned.engine_options.weights));
  for (const std::string& output : model.outputs()) to.add_outputs(output);
  to.set_kept_type(static_cast<int32_t>(model.kept_type()));
  to.set_by_operator_names(model.by_operator_names());
}

void SetTerms(const Session::Terms& terms, store::Record& to) {
  to.set_idle_timeout_nanos(absl::ToInt64Nanoseconds(terms.idle_timeout));
  to.set_max_in_flight(terms.max_in_flight);
  to.set_window_operations(terms.window.operations);
  to.set_window_bytes(terms.window.bytes);
  to.set_durability(static_cast<int32_t>(terms.durability));
}

Session::Terms TermsOf(const store::Record& from) {
  Session::Terms terms;
  terms.idle_timeout = absl::Nanoseconds(from.idle_timeout_nanos());
  terms.max_in_flight = from.max_in_flight();
  terms.window = {from.window_operations(), from.window_bytes()};
  terms.durability = static_cast<Durability>(from.durability());
  return terms;
}

void SetReply(const Window::Kept& kept, store::Reply& to) {
  const auto& result = static_cast<const OperationResult&>(*kept.reply);
  to.set_digest_high(kept.digest.high);
  to.set_digest_low(kept.digest.low);
  for (const OutputTensor& output : result.outputs) SetTensor(output, *to.add_outputs());
  to.set_engine(result.engine);
  to.set_queue_nanos(absl::ToInt64Nanoseconds(result.queue_time));
  to.set_compute_nanos(absl::ToInt64Nanoseconds(result.compute_time));
  to.set_kept_bytes(result.kept_bytes);
}

Window::Kept ReplyOf(const store::Reply& from, const Numbers& numbers) {
  auto result = MakeRecycled<OperationResult>();
  for (const store::Tensor& output : from.outputs()) result->outputs.push_back(TensorOf(output));
  result->engine = from.engine();
  result->queue_time = absl::Nanoseconds(from.queue_nanos());
  result->compute_time = absl::Nanoseconds(from.compute_nanos());
  result->kept_bytes = from.kept_bytes();
  return {numbers.last_applied, {from.digest_high(), from.digest_low()}, numbers, std::move(result)};
}

std::array<char, kChecksumBytes> ChecksumOf(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  std::array<char, kChecksumBytes> checksum;
  for (size_t k = 0; k < kChecksumBytes; ++k) checksum[k] = static_cast<char>(crc >> (8 * k) & 0xFF);
  return checksum;
}

absl::Status Damaged(std::string_view what) {
  return SessionError(absl::StatusCode::kDataLoss, "SESSION_LOST",
                      absl::StrCat("the record of the session in the store is damaged (", View(what),
                                   "); open a new session from a state of your own, or from the start"));
}

// The calls that may find its model, the likeliest first: another server may have it under another version or name.
std::vector<OpenCall> CallsFor(const store::Record& record) {
  OpenCall call;
  call.tenant = record.tenant();
  call.options = {.clip_cell_input = record.clip_cell_input(),
                  .empty_row_state = static_cast<EmptyRowState>(record.empty_row_state()),
                  .deterministic = record.deterministic(),
                  .allow_reduced_precision = record.allow_reduced_precision(),
                  .weights = static_cast<WeightType>(record.weights())};
  call.engine = record.engine();
  call.rows = record.rows();
  call.outputs.assign(record.outputs().begin(), record.outputs().end());
  call.state_type = static_cast<DataType>(record.kept_type());
  call.by_operator_names = record.by_operator_names();
  std::vector<OpenCall> calls;
  for (const bool keeps_engine : {true, false}) {
    if (!keeps_engine) call.engine.clear();
    if (!record.model().empty()) {
      call.target = ModelName{record.model(), record.model_version()};
      calls.push_back(call);
    }
    call.target = ModelFingerprint{record.fingerprint()};
    calls.push_back(call);
  }
  return calls;
}

absl::StatusOr<SessionModelPtr> FindModel(SessionCore& core, const store::Record& record) {
  absl::Status why;
  for (const OpenCall& call : CallsFor(record)) {
    absl::StatusOr<SessionModelPtr> model = core.MakeModel(call);
    if (model.ok() && (*model)->fingerprint() == record.fingerprint()) return model;
    if (!model.ok()) why = model.status();
  }
  return SessionError(absl::StatusCode::kFailedPrecondition, "MODEL_MISSING",
                      absl::StrCat("this server lacks the session's model ", record.model(), " (fingerprint ",
                                   record.fingerprint(), "); all servers of a store need the same models",
                                   why.ok() ? "" : absl::StrCat(" (", why.message(), ")")));
}

absl::StatusOr<SessionStatePtr> StateOf(const SessionModel& model, const store::Record& record) {
  if (!record.has_state()) return model.Start(record.rows());
  std::vector<NamedTensor> tensors;
  for (const store::Tensor& tensor : record.state()) tensors.push_back(ViewOf(tensor));
  const absl::StatusOr<int64_t> rows = model.CheckTensors(tensors);
  if (!rows.ok()) return Damaged({rows.status().message().data(), rows.status().message().size()});
  return model.Import(tensors, *rows);
}

}  // namespace

absl::StatusOr<std::string> SessionRecordCodec::Encode(const SessionRecord& record) {
  store::Record to;
  to.set_version(kVersion);
  to.set_id(record.key.id.bytes.data(), record.key.id.bytes.size());
  to.set_mac(record.key.mac.data(), record.key.mac.size());
  to.set_boot(record.key.boot);
  to.set_tenant(record.tenant);
  to.set_name(record.name);
  to.set_last_applied(record.numbers.last_applied);
  to.set_position(record.numbers.position);
  to.set_owner_epoch(record.owner_epoch);
  to.set_closed(record.state == nullptr);
  if (record.state != nullptr) {
    const auto& model = static_cast<const SessionModel&>(*record.subject);
    SetModel(model, to);
    SetTerms(record.terms, to);
    to.set_rows(record.state->rows);
    to.set_has_state(!record.state->handles.empty());
    if (to.has_state()) {
      ASSIGN_OR_RETURN(const std::vector<OutputTensor> tensors, model.Export(*record.state));
      for (const OutputTensor& tensor : tensors) SetTensor(tensor, *to.add_state());
    }
    if (record.last) SetReply(*record.last, *to.mutable_last());
  }
  std::string bytes(kChecksumBytes, '\0');
  if (!to.AppendToString(&bytes)) return absl::InternalError("the record does not serialize");
  std::ranges::copy(ChecksumOf(std::string_view(bytes).substr(kChecksumBytes)), bytes.begin());
  return bytes;
}

absl::StatusOr<SessionRecord> SessionRecordCodec::Decode(std::string_view bytes) {
  if (bytes.size() < kChecksumBytes) return Damaged("too short");
  const std::string_view rest = bytes.substr(kChecksumBytes);
  if (!std::ranges::equal(ChecksumOf(rest), bytes.substr(0, kChecksumBytes))) return Damaged("wrong checksum");
  store::Record from;
  SessionRecord record;
  if (!from.ParseFromArray(rest.data(), static_cast<int>(rest.size())) ||
      from.id().size() != record.key.id.bytes.size() || from.mac().size() != record.key.mac.size()) {
    return Damaged("no record");
  }
  if (from.version() > kVersion) {
    return SessionError(absl::StatusCode::kFailedPrecondition, "RECORD_TOO_NEW",
                        absl::StrCat("a newer server wrote the session's record (version ", from.version(),
                                     "; this one reads up to ", kVersion, "): update this server"));
  }
  std::ranges::copy(from.id(), record.key.id.bytes.begin());
  std::ranges::copy(from.mac(), record.key.mac.begin());
  record.key.boot = from.boot();
  record.tenant = from.tenant();
  record.name = from.name();
  record.numbers = {from.last_applied(), from.position()};
  record.owner_epoch = from.owner_epoch();
  if (from.closed()) return record;
  record.terms = TermsOf(from);
  ASSIGN_OR_RETURN(SessionModelPtr model, FindModel(*core_, from));
  ASSIGN_OR_RETURN(record.state, StateOf(*model, from));
  record.subject = std::move(model);
  if (from.has_last()) record.last = ReplyOf(from.last(), record.numbers);
  return record;
}

}  // namespace rnnserve
