// SPDX-License-Identifier: Apache-2.0
// Open of an existing session: whether it agrees with the request.
#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/out_of_memory.h"
#include "base/view.h"
#include "engine/op/wording.h"
#include "server/core/target.h"
#include "server/sessions/execution/session_core.h"
#include "server/sessions/execution/session_digest.h"

namespace rnnserve {
namespace {

absl::Status Differs(std::string_view field, std::string_view message) {
  return WithField(SessionError(absl::StatusCode::kFailedPrecondition, "SESSION_MISMATCH", message), field);
}

}  // namespace

OpenAsk SessionCore::AskOf(const OpenCall& call) {
  return {.tenant = call.tenant,
          .request = {call.request_id, call.request_id.empty() ? Digest{} : DigestOf(call)},
          .name = call.name,
          .attach = call.attach,
          .must_exist = call.must_exist,
          .agrees = [this, &call](const Session& session) { return CheckAgrees(call, session); }};
}

absl::Status SessionCore::CheckAgrees(const OpenCall& call, const Session& session) {
  const auto& model = static_cast<const SessionModel&>(*session.subject());
  if (absl::Status target = OrOutOfMemory([&] { return CheckTarget(call, model); }); !target.ok()) return target;
  const int64_t rows = session.view().rows;
  if (call.rows && *call.rows != rows) {
    return Differs("rows", absl::StrCat("rows is ", *call.rows, ", but the session of this name has ", rows,
                                        "; leave rows out to attach to it as it is"));
  }
  if (call.state_type && *call.state_type != model.kept_type()) {
    return Differs("state_type", absl::StrCat("state_type is ", View(DataTypeName(*call.state_type)),
                                              ", but the session of this name keeps its state as ",
                                              View(DataTypeName(model.kept_type())), "; leave it out to attach to it"));
  }
  if (call.state || call.state_of_session) {
    return Differs(call.state ? "state" : "state_of_session",
                   "an initial state came, but the session of this name has a state already; attach without one, and "
                   "use SetState or Reset where the state is to be replaced");
  }
  return absl::OkStatus();
}

// The same name is the same model, whatever has been loaded under it since; else the weights decide.
absl::Status SessionCore::CheckTarget(const OpenCall& call, const SessionModel& model) {
  if (!call.target) return absl::OkStatus();
  const auto* name = std::get_if<ModelName>(&*call.target);
  const auto* fingerprint = std::get_if<ModelFingerprint>(&*call.target);
  const auto* op = std::get_if<OperatorDef>(&*call.target);
  if (name != nullptr && name->name == model.model_name() &&
      (!name->version || name->version == model.pinned()->version)) {
    return absl::OkStatus();
  }
  if (fingerprint != nullptr && fingerprint->hex == model.fingerprint()) return absl::OkStatus();
  InferCall infer;
  infer.target = *call.target;
  infer.inputs = call.weights;
  const absl::StatusOr<ResolvedModel> target = ResolveTarget(infer, core_->models());
  if (target.ok() && target->model->fingerprint() == model.fingerprint()) return absl::OkStatus();
  if (!target.ok() && !absl::IsNotFound(target.status())) return target.status();
  const std::string runs =
      model.model_name().empty()
          ? absl::StrCat("the operator with fingerprint ", model.fingerprint())
          : absl::StrCat("model ", Quoted(model.model_name()), " (fingerprint ", model.fingerprint(), ")");
  return Differs(op != nullptr            ? "operator"
                 : fingerprint != nullptr ? "fingerprint"
                                          : "model",
                 absl::StrCat("the session of this name runs ", runs,
                              ", and the request names another one; take another "
                              "name, or Close that session first"));
}

}  // namespace rnnserve
