// SPDX-License-Identifier: Apache-2.0
#include "server/sessions/execution/session_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/recycled.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "server/sessions/contract/session_error.h"

namespace rnnserve {
absl::Status LostState(const absl::Status& status) {
  if (!absl::IsDataLoss(status)) return status;
  return SessionError(absl::StatusCode::kDataLoss, "SESSION_LOST",
                      std::string_view(status.message().data(), status.message().size()));
}

absl::Status SessionModel::CanGoOn() const {
  for (const Engine* engine : pinned_->engines.engines) {
    const absl::Status serves = engine->InService();
    if (serves.ok()) continue;
    return SessionError(
        absl::StatusCode::kDataLoss, "SESSION_LOST",
        absl::StrCat("engine \"", View(engine->name()), "\", which the session runs on, is ", serves.message(),
                     "; open a new session from a state of your own, or from the start"));
  }
  return absl::OkStatus();
}

NarrowState::Form SessionModel::NarrowForm(size_t layer) const {
  const OpSpec& spec = stack().layers[layer];
  return {kept_type_, static_cast<size_t>(spec.hidden_size), spec.kind == CellKind::kLstm};
}

int64_t SessionModel::StateValues() const {
  int64_t values = 0;
  for (const OpSpec& spec : stack().layers) values += spec.hidden_size * (spec.kind == CellKind::kLstm ? 2 : 1);
  return values;
}

SessionStatePtr SessionModel::Make(int64_t rows, SessionState::Handles handles) const {
  return MakeRecycled<SessionState>(SessionState{rows, std::move(handles), KeptBytes(rows)});
}

const State* SessionModel::HandleOf(const SessionState& state, size_t layer, int64_t row) {
  if (state.handles.empty()) return nullptr;
  return state.handles[layer * static_cast<size_t>(state.rows) + static_cast<size_t>(row)].get();
}

RunStates SessionModel::ToRun(const SessionState& state) const {
  const auto rows = static_cast<size_t>(state.rows);
  RunStates states(layers());
  for (size_t layer = 0; layer < layers(); ++layer) {
    if (state.handles.empty()) {
      states[layer].resize(rows);
      continue;
    }
    const auto* first = state.handles.begin() + static_cast<std::ptrdiff_t>(layer * rows);
    states[layer].assign(first, first + static_cast<std::ptrdiff_t>(rows));
    if (!is_narrow()) continue;
    for (std::shared_ptr<const State>& handle : states[layer]) {
      if (handle == nullptr) continue;
      handle = Widened(program(layer), static_cast<const NarrowState&>(*handle), NarrowForm(layer));
    }
  }
  return states;
}

absl::StatusOr<SessionStatePtr> SessionModel::FromRun(int64_t rows, RunStates states) const {
  SessionState::Handles handles;
  handles.reserve(layers() * static_cast<size_t>(rows));
  for (size_t layer = 0; layer < states.size(); ++layer) {
    for (std::shared_ptr<const State>& handle : states[layer]) {
      if (is_narrow() && handle != nullptr) {
        ASSIGN_OR_RETURN(handle, Narrowed(*program(layer), *handle, NarrowForm(layer)));
      }
      handles.push_back(std::move(handle));
    }
  }
  return Make(rows, std::move(handles));
}

SessionStatePtr SessionModel::Select(const SessionState& state, std::span<const int64_t> rows) const {
  SessionState::Handles handles;
  for (size_t layer = 0; layer < layers() && !state.handles.empty(); ++layer) {
    for (const int64_t row : rows) {
      handles.push_back(state.handles[layer * static_cast<size_t>(state.rows) + static_cast<size_t>(row)]);
    }
  }
  return Make(static_cast<int64_t>(rows.size()), std::move(handles));
}

}  // namespace rnnserve
