// SPDX-License-Identifier: Apache-2.0
#include "server/sessions/execution/session_model.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/field_error.h"
#include "base/recycled.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "engine/float16.h"
#include "engine/op/signature.h"
#include "engine/op/tensor_check.h"
#include "engine/op/wording.h"
#include "server/sessions/contract/allocated_bytes.h"
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

int64_t SessionModel::KeptReplyBytes(int64_t rows) const {
  int64_t bytes = 0;
  for (const OpSpec& spec : stack().layers) {
    const int64_t tensor = rows * spec.hidden_size * static_cast<int64_t>(ByteSize(state_type()));
    bytes += AllocatedBytes(tensor) * (spec.kind == CellKind::kLstm ? 2 : 1);
  }
  return bytes;
}

absl::StatusOr<std::shared_ptr<const State>> SessionModel::NewHandle(size_t layer, const std::byte* h,
                                                                     const std::byte* c) const {
  if (is_narrow()) return std::make_shared<const NarrowState>(NarrowForm(layer), h, c);
  // Its memory is zeroed before it is given back.
  std::shared_ptr<State> handle(program(layer)->NewState().release(), WipeState{program(layer), state_type()});
  program(layer)->ImportState(state_type(), h, c, *handle);
  RETURN_IF_ERROR(handle->failure());
  return handle;
}

absl::StatusOr<SessionStatePtr> SessionModel::Start(int64_t rows) const {
  SessionState::Handles handles;
  const bool has_start = stack().pipeline != nullptr && !stack().pipeline->starts.empty();
  for (size_t layer = 0; has_start && layer < layers(); ++layer) {
    const LayerStart& start = stack().pipeline->starts[layer];
    std::vector<std::byte> wide[2];
    const std::byte* from[2] = {nullptr, nullptr};
    for (size_t k = 0; k < 2; ++k) {
      const std::vector<std::byte>& bytes = k == 0 ? start.h : start.c;
      if (bytes.empty()) continue;
      const auto count = static_cast<size_t>(stack().layers[layer].hidden_size);
      wide[k].resize(count * ByteSize(state_type()));
      ConvertElements(stack().data_type(), bytes.data(), state_type(), wide[k].data(), count);
      from[k] = wide[k].data();
    }
    ASSIGN_OR_RETURN(std::shared_ptr<const State> handle, NewHandle(layer, from[0], from[1]));
    for (int64_t row = 0; row < rows; ++row) handles.push_back(handle);  // states never change
  }
  return Make(rows, std::move(handles));
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
  RunStates states(layers(), LayerStates(rows));
  for (size_t layer = 0; layer < layers() && !state.handles.empty(); ++layer) {
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
