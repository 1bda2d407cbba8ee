// SPDX-License-Identifier: Apache-2.0
// Opening sessions: terms, model, initial state.
#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/out_of_memory.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "engine/op/signature.h"
#include "engine/op/wording.h"
#include "server/admission/limit_error.h"
#include "server/sessions/contract/allocated_bytes.h"
#include "server/sessions/execution/session_core.h"
#include "server/sessions/execution/session_digest.h"

namespace rnnserve {
namespace {

template <typename T>
absl::Status CheckRange(std::string_view field, T value, T least, T most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return FieldError(field, absl::StrCat(absl::string_view(field.data(), field.size()), " is ", value,
                                        "; this server takes ", least, " to ", most));
}

absl::Status CheckForward(const StackSpec& stack) {
  if (stack.pipeline != nullptr && !stack.pipeline->layer_h.empty()) {
    return SessionError(absl::StatusCode::kFailedPrecondition, "NOT_FORWARD",
                        "the model's file computes the state that its layers start from of what each request brings, "
                        "and a session goes on from its own; run it with Infer over whole sequences");
  }
  for (size_t layer = 0; layer < stack.layers.size(); ++layer) {
    if (stack.layers[layer].direction == Direction::kForward) continue;
    const bool reverse = stack.layers[layer].direction == Direction::kReverse;
    const std::string where = stack.layers.size() == 1 ? "the operator" : absl::StrCat("layer ", layer);
    return SessionError(
        absl::StatusCode::kFailedPrecondition, "NOT_FORWARD",
        absl::StrCat(where, " is ", reverse ? "reverse" : "bidirectional",
                     " and needs the end of the sequence before its first step, which a session does not "
                     "have; run it with Infer over whole sequences"));
  }
  return absl::OkStatus();
}

// Whether the caller uses a name that is the operators' alone: then the session answers in their names.
bool UsesOperatorNames(const OpenCall& call, const StackSpec& stack) {
  if (stack.file_inputs() == nullptr) return false;
  if (call.by_operator_names) return true;
  const auto is_output_of_file = [&](const std::string& name) {
    return stack.file_names == nullptr || stack.file_names->HasOutput(name);
  };
  const auto is_state_of_file = [&](const NamedTensor& tensor) {
    return std::ranges::find(*stack.file_inputs(), tensor.name, &PipelineInput::name) != stack.file_inputs()->end();
  };
  return !std::ranges::all_of(call.outputs, is_output_of_file) ||
         (call.state && !std::ranges::all_of(*call.state, is_state_of_file));
}

// A chunk of no steps, from its shapes alone: tells whether the outputs exist, and what of them does not grow.
absl::StatusOr<RunPlan> PlanNoSteps(const PinnedModel& pinned, int64_t rows, std::span<const std::string> outputs) {
  const StackSpec& stack = pinned.model->stack();
  std::vector<NamedTensor> empty;
  std::deque<std::vector<std::byte>> zeros;
  for (const TensorSignature& input : ChunkInputs(stack)) {
    if (input.optional) continue;
    NamedTensor& tensor = empty.emplace_back(NamedTensor{input.name, {input.type, input.shape, {}}});
    const bool is_one_step = std::ranges::find(tensor.tensor.shape, kDimT) == tensor.tensor.shape.end();
    for (int64_t& axis : tensor.tensor.shape) axis = axis == kDimT ? 0 : axis == kDimN ? rows : axis;
    if (is_one_step) {  // of a decoder: there are no chunks of no steps
      zeros.emplace_back(static_cast<size_t>(NumBytes(input.type, tensor.tensor.shape).value_or(0)));
      tensor.tensor.data = zeros.back();
    }
  }
  return PlanRun(stack, empty, outputs, pinned.run_options);
}

// Bytes of the reply of a chunk of `steps` steps, at most `most`.
int64_t KeptBytes(const RunPlan& no_steps, int64_t steps, int64_t most) {
  int64_t sum = 0;
  for (const OutputPlan& output : no_steps.outputs) {
    Shape shape = output.shape;
    std::replace(shape.begin(), shape.end(), int64_t{0}, steps);  // sessions have rows, and cells have units
    sum += AllocatedBytes(std::min(NumBytes(output.type, shape).value_or(most), most));
  }
  return std::min(sum, most);
}

// The default window: the reply of a chunk of 256 steps, from 64 KiB to 1 MiB; in any case that of one step, and the
// final state. A window is charged when it is agreed, so it must be cheap where replies are small: 100,000 sessions of
// H = 128 take 13 GiB.
int64_t DefaultWindowBytes(const SessionModel& model, int64_t rows) {
  constexpr int64_t kReplySteps = 256, kLeast = 64 << 10, kMost = 1 << 20, kAny = int64_t{1} << 50;
  int64_t one = 0, several = 0;
  if (const auto plan = PlanNoSteps(*model.pinned(), rows, model.outputs()); plan.ok()) {
    one = KeptBytes(*plan, 1, kAny);
    several = KeptBytes(*plan, kReplySteps, kMost);
  }
  return OperationResult::kFixedBytes + std::max({several, kLeast, one, model.KeptReplyBytes(rows)});
}

absl::StatusOr<DataType> KeptType(const OpenCall& call, const StackSpec& stack) {
  const DataType computed = ComputeType(stack.data_type());
  const DataType kept = call.state_type.value_or(computed);
  const bool narrows = computed == DataType::kFloat && (kept == DataType::kFloat16 || kept == DataType::kBFloat16);
  if (kept == computed || narrows) return kept;
  return FieldError(
      "state_type",
      absl::StrCat("state_type is ", View(DataTypeName(kept)), ", but the state is computed in ",
                   View(DataTypeName(computed)), "; leave it out to keep it so",
                   computed == DataType::kFloat ? ", or set FLOAT16 or BFLOAT16 to keep half the bytes" : ""));
}

OpenReply Reply(const OpenedSession& opened) {
  const auto& model = static_cast<const SessionModel&>(*opened.session->subject());
  const Session::View view = opened.session->view();
  return {.key = opened.key,
          .fingerprint = model.fingerprint(),
          .created = opened.is_new,
          .owner_epoch = opened.owner_epoch,
          .rows = view.rows,
          .numbers = view.numbers,
          .durable_number = view.durable_number,
          .terms = opened.session->terms(),
          .state_type = model.kept_type(),
          .data_input = model.data_input()};
}

absl::Status StateField(const absl::Status& status) {
  const std::optional<std::string> field = FieldOf(status);
  if (!field) return status;
  return FieldError(absl::StrCat("state.", *field), {status.message().data(), status.message().size()});
}

}  // namespace

absl::StatusOr<Session::Terms> SessionCore::Agree(const OpenCall& call) const {
  Session::Terms terms;
  terms.idle_timeout = std::min(call.idle_timeout.value_or(options_.default_idle_timeout), options_.max_idle_timeout);
  if (terms.idle_timeout <= absl::ZeroDuration()) {
    return FieldError("idle_timeout", absl::StrCat("idle_timeout is ", absl::FormatDuration(terms.idle_timeout),
                                                   "; expected more than 0, and at most ",
                                                   absl::FormatDuration(options_.max_idle_timeout)));
  }
  terms.max_in_flight = call.max_in_flight.value_or(terms.max_in_flight);
  terms.window.operations = call.window_operations.value_or(terms.window.operations);
  terms.window.bytes = call.window_bytes.value_or(0);  // else that of the model: OpenWith
  absl::Status status = CheckRange("max_in_flight", terms.max_in_flight, 1, options_.max_in_flight);
  if (status.ok()) {
    status = CheckRange("window_operations", terms.window.operations, 0, options_.max_window_operations);
  }
  if (status.ok()) {
    status = CheckRange("window_bytes", terms.window.bytes, int64_t{0}, options_.max_window_bytes);
  }
  if (status.ok() && call.rows) status = CheckRange("rows", *call.rows, int64_t{1}, options_.max_rows);
  terms.durability = call.durability.value_or(Durability::kLocal);
  terms.stays_on_drain = call.stays_on_drain;
  const bool is_durable = terms.durability != Durability::kLocal;
  if (status.ok() && is_durable && !sessions_->has_store()) {
    status = SessionError(
        absl::StatusCode::kFailedPrecondition, "NO_STORE",
        "this server has no session store (--store); open with durability LOCAL, and take the state with GetState "
        "now and then");
  }
  if (status.ok() && is_durable && call.target && std::holds_alternative<OperatorDef>(*call.target)) {
    status = FieldError("operator",
                        "a durable session names a model, which other servers have, too: an operator with its weights "
                        "is not in its record; load it with Models.Load, or leave durability out");
  }
  if (!status.ok()) return status;
  return terms;
}

absl::StatusOr<SessionModelPtr> SessionCore::MakeModel(const OpenCall& call) {
  InferCall infer;
  infer.target = *call.target;
  infer.inputs = call.weights;
  infer.options = call.options;
  infer.engine = call.engine;
  infer.tenant = call.tenant;
  ASSIGN_OR_RETURN(auto&& pinned, core_->Pin(infer, {.rows = call.rows.value_or(1), .steps = 1}));
  pinned.run_options.in_session = true;
  RETURN_IF_ERROR(CheckForward(pinned.model->stack()));
  if (const auto plan = PlanNoSteps(pinned, 1, call.outputs); !plan.ok()) return plan.status();
  ASSIGN_OR_RETURN(const DataType kept_type, KeptType(call, pinned.model->stack()));
  const auto* name = std::get_if<ModelName>(&*call.target);
  SessionCountersPtr counters = options_.metrics == nullptr ? nullptr : options_.metrics->Of(pinned.label);
  const bool by_operator_names = UsesOperatorNames(call, pinned.model->stack());
  return models_.Share(std::move(pinned), name == nullptr ? "" : name->name, call.outputs, kept_type,
                       std::move(counters), by_operator_names);
}

// A session of that name may be in the store. A caller that wants a local one says so.
void SessionCore::Open(OpenCall call, OpenDone done) {
  const bool is_shared = call.attach ? call.durability != Durability::kLocal
                                     : call.durability.value_or(Durability::kLocal) != Durability::kLocal;
  if (call.name.empty() || !is_shared || !sessions_->has_store()) return OpenHere(std::move(call), {}, std::move(done));
  const std::string tenant = call.tenant, name = call.name;
  const bool attach = call.attach;
  sessions_->FetchNamed(
      tenant, name, attach,
      [this, call = std::move(call), done = std::move(done)](absl::StatusOr<std::optional<StoreFence>> fence) mutable {
        if (!fence.ok()) return done(fence.status());
        OpenHere(std::move(call), *fence, std::move(done));
      });
}

// Answers once the store knows what the Open has made or changed.
void SessionCore::Opened(OpenedSession opened, bool attach, OpenDone done) {
  if (!opened.session->is_durable()) return done(Reply(opened));
  const SessionPtr session = opened.session;
  session->Persist([opened = std::move(opened), attach, done = std::move(done)](absl::Status written) mutable {
    // Another server has made a session of that name meanwhile.
    if (absl::IsAborted(written) && opened.is_new && !opened.session->name().empty() && !attach)
      return done(NameTaken());
    if (!written.ok()) return done(std::move(written));
    done(Reply(opened));
  });
}

void SessionCore::OpenHere(OpenCall call, std::optional<StoreFence> fence, OpenDone done) {
  if (auto opened = sessions_->FindOpened(AskOf(call))) {
    if (!opened->ok()) return done(opened->status());
    return Opened(**std::move(opened), call.attach, std::move(done));
  }
  absl::StatusOr<Session::Terms> terms = Agree(call);
  if (!terms.ok()) return done(terms.status());
  absl::StatusOr<SessionModelPtr> model = OrOutOfMemory([&] { return MakeModel(call); });
  if (!model.ok()) return done(model.status());

  if (call.state_of_session) {
    const std::string key = *call.state_of_session, tenant = call.tenant;
    ReadRequest read;
    read.done = [this, call = std::move(call), fence, model = *std::move(model), terms = *std::move(terms),
                 done = std::move(done)](absl::StatusOr<Snapshot> snapshot) mutable {
      if (!snapshot.ok()) return done(snapshot.status());
      absl::StatusOr<SessionStatePtr> state = OrOutOfMemory(
          [&] { return model->Adopt(static_cast<const SessionModel&>(*snapshot->subject), snapshot->state); });
      if (!state.ok()) return done(state.status());
      OpenWith(std::move(call), fence, std::move(model), *std::move(state), terms, std::move(done));
    };
    return Read(key, tenant, std::move(read));
  }
  SessionStatePtr state;
  if (call.state) {
    absl::StatusOr<int64_t> rows = (*model)->CheckTensors(*call.state);
    if (!rows.ok()) return done(StateField(rows.status()));
    if (*rows > options_.max_rows) return done(CheckRange("rows", *rows, int64_t{1}, options_.max_rows));
    absl::StatusOr<SessionStatePtr> imported = OrOutOfMemory([&] { return (*model)->Import(*call.state, *rows); });
    if (!imported.ok()) return done(imported.status());
    state = *std::move(imported);
  } else {
    absl::StatusOr<SessionStatePtr> start = OrOutOfMemory([&] { return (*model)->Start(call.rows.value_or(1)); });
    if (!start.ok()) return done(start.status());
    state = *std::move(start);
  }
  OpenWith(std::move(call), fence, *std::move(model), std::move(state), *std::move(terms), std::move(done));
}

void SessionCore::OpenWith(OpenCall call, std::optional<StoreFence> fence, SessionModelPtr model, SessionStatePtr state,
                           Session::Terms terms, OpenDone done) {
  if (call.rows && *call.rows != state->rows) {
    return done(FieldError("rows", absl::StrCat("rows is ", *call.rows, ", but the initial state has ", state->rows,
                                                "; leave rows out, or bring as many")));
  }
  if (!call.window_bytes && terms.window.operations > 0) {
    terms.window.bytes = std::min(DefaultWindowBytes(*model, state->rows), options_.max_window_bytes);
  }
  const bool attach = call.attach;
  OpenSpec spec{AskOf(call)};
  spec.subject = std::move(model);
  spec.state = std::move(state);
  spec.terms = terms;
  spec.fence = fence;
  absl::StatusOr<OpenedSession> opened = sessions_->Open(std::move(spec));
  if (!opened.ok()) return done(opened.status());
  Opened(*std::move(opened), attach, std::move(done));
}

}  // namespace rnnserve
