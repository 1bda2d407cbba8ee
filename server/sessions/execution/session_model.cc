// SPDX-License-Identifier: Apache-2.0
#include "server/sessions/execution/session_model.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/field_error.h"
#include "base/recycled.h"
#include "base/view.h"
#include "engine/op/signature.h"
#include "engine/op/tensor_check.h"
#include "engine/op/wording.h"
#include "server/sessions/contract/allocated_bytes.h"
#include "server/sessions/contract/session_error.h"

namespace rnnserve {
namespace {

std::string Names(std::span<const StateTensor> tensors) {
  return absl::StrJoin(tensors, ", ", [](std::string* out, const StateTensor& one) { out->append(one.name); });
}

std::string TensorField(std::string_view name) { return absl::StrCat("tensors[", Shortened(name), "]"); }

Shape ShapeOf(const StateTensor& tensor, int64_t rows) {
  return tensor.rows_first ? Shape{rows, 1, tensor.hidden_size} : Shape{1, rows, tensor.hidden_size};
}

}  // namespace

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

std::vector<StateTensor> SessionModel::StateTensors() const {
  std::vector<StateTensor> tensors;
  for (size_t layer = 0; layer < layers(); ++layer) {
    const OpSpec& spec = stack().layers[layer];
    const TensorNames names = NamesOf(spec.dialect, spec.kind);
    const auto add = [&](std::string_view name, bool is_cell) {
      if (name.empty()) return;
      tensors.push_back({LayerName(stack(), name, layer), layer, is_cell, spec.hidden_size, spec.batch_first()});
    };
    add(names.initial_h, false);
    add(names.initial_c, true);
  }
  return tensors;
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
  if (absl::Status failed = handle->failure(); !failed.ok()) return failed;
  return handle;
}

SessionStatePtr SessionModel::Zeros(int64_t rows) const { return Make(rows, {}); }

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
        absl::StatusOr<std::shared_ptr<const State>> narrow = Narrowed(*program(layer), *handle, NarrowForm(layer));
        if (!narrow.ok()) return narrow.status();
        handle = *std::move(narrow);
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

// Only states whose layers lie one after the other can be parted; what cannot is refused by its name.
std::vector<NamedTensor> SessionModel::ByLayer(std::span<const NamedTensor> tensors) const {
  std::vector<NamedTensor> parted;
  for (const NamedTensor& tensor : tensors) {
    std::vector<StateTensor> parts;
    for (StateTensor& one : StateTensors()) {
      if (one.name == absl::StrCat(tensor.name, ".", one.layer)) parts.push_back(std::move(one));
    }
    const auto differs = [&](const StateTensor& one) {
      return one.rows_first || one.hidden_size != parts[0].hidden_size;
    };
    const TensorView& whole = tensor.tensor;
    if (parts.empty() || std::ranges::any_of(parts, differs) || whole.shape.size() != 3 ||
        whole.shape[0] != static_cast<int64_t>(parts.size())) {
      parted.push_back(tensor);
      continue;
    }
    const size_t bytes = whole.data.size() / parts.size();
    for (size_t k = 0; k < parts.size(); ++k) {
      const Shape shape = {1, whole.shape[1], whole.shape[2]};
      parted.push_back({parts[k].name, {whole.type, shape, whole.data.subspan(k * bytes, bytes)}});
    }
  }
  return parted;
}

absl::StatusOr<int64_t> SessionModel::CheckTensors(std::span<const NamedTensor> whole) const {
  const std::vector<NamedTensor> tensors = ByLayer(whole);
  const std::vector<StateTensor> known = StateTensors();
  if (tensors.empty()) {
    return FieldError("tensors", absl::StrCat("the state has no tensors; it has ", Names(known), ", or leave it out"));
  }
  std::set<std::string_view> seen;
  std::optional<int64_t> rows;
  for (const NamedTensor& tensor : tensors) {
    const auto is = [&](const StateTensor& one) { return one.name == tensor.name; };
    const auto found = std::find_if(known.begin(), known.end(), is);
    const std::string field = TensorField(tensor.name);
    if (found == known.end()) {
      return FieldError(field,
                        absl::StrCat("there is no state tensor ", Quoted(tensor.name), "; it has ", Names(known)));
    }
    if (!seen.insert(tensor.name).second) {
      return FieldError(field, absl::StrCat("state tensor ", tensor.name, " is given twice: keep one of them"));
    }
    if (tensor.tensor.type != state_type()) {
      return FieldError(
          field + ".data_type",
          absl::StrCat(tensor.name, " is ", View(DataTypeName(tensor.tensor.type)), "; the state of this session is ",
                       View(DataTypeName(state_type())), ", the type it is computed in"));
    }
    const Shape& shape = tensor.tensor.shape;
    const bool has_rank = shape.size() == 3;
    const int64_t came = has_rank ? shape[found->rows_first ? 0 : 1] : 0;
    if (!has_rank || came < 1 || shape != ShapeOf(*found, came)) {
      const std::string expected = found->rows_first ? absl::StrCat("[B, 1, ", found->hidden_size, "]")
                                                     : absl::StrCat("[1, B, ", found->hidden_size, "]");
      return FieldError(field + ".shape", absl::StrCat(tensor.name, " has shape ", ShortShape(shape), "; expected ",
                                                       expected, " for B rows"));
    }
    if (rows && *rows != came) {
      return FieldError(field + ".shape",
                        absl::StrCat(tensor.name, " has ", came, " rows, but ", tensors[0].name, " has ", *rows));
    }
    rows = came;
  }
  if (seen.size() == known.size()) return *rows;
  std::vector<std::string> missing;
  for (const StateTensor& one : known) {
    if (!seen.contains(one.name)) missing.push_back(one.name);
  }
  return FieldError("tensors", absl::StrCat(absl::StrJoin(missing, ", "), missing.size() == 1 ? " is" : " are",
                                            " missing; a state comes whole, with ", Names(known)));
}

absl::StatusOr<SessionStatePtr> SessionModel::Import(std::span<const NamedTensor> whole, int64_t rows) const {
  const std::vector<NamedTensor> tensors = ByLayer(whole);
  SessionState::Handles handles;
  for (size_t layer = 0; layer < layers(); ++layer) {
    const std::byte* from[2] = {nullptr, nullptr};
    size_t row_bytes = 0;
    for (const StateTensor& one : StateTensors()) {
      if (one.layer != layer) continue;
      from[one.is_cell ? 1 : 0] = FindInput(tensors, one.name)->tensor.data.data();
      row_bytes = static_cast<size_t>(one.hidden_size) * ByteSize(state_type());
    }
    for (int64_t row = 0; row < rows; ++row) {
      const size_t offset = static_cast<size_t>(row) * row_bytes;
      absl::StatusOr<std::shared_ptr<const State>> handle =
          NewHandle(layer, from[0] + offset, from[1] == nullptr ? nullptr : from[1] + offset);
      if (!handle.ok()) return handle.status();
      handles.push_back(*std::move(handle));
    }
  }
  return Make(rows, std::move(handles));
}

absl::StatusOr<std::vector<OutputTensor>> SessionModel::Export(const SessionState& state) const {
  std::vector<OutputTensor> tensors;
  for (const StateTensor& one : StateTensors()) {
    const size_t row_bytes = static_cast<size_t>(one.hidden_size) * ByteSize(state_type());
    OutputTensor tensor{one.name, state_type(), ShapeOf(one, state.rows),
                        Elements(static_cast<size_t>(state.rows) * row_bytes)};
    for (int64_t row = 0; row < state.rows; ++row) {
      const State* handle = HandleOf(state, one.layer, row);
      if (handle == nullptr) continue;
      auto* to = reinterpret_cast<std::byte*>(tensor.bytes.data()) + static_cast<size_t>(row) * row_bytes;
      std::byte* const h = one.is_cell ? nullptr : to;
      std::byte* const c = one.is_cell ? to : nullptr;
      if (is_narrow()) {
        static_cast<const NarrowState&>(*handle).Export(h, c);
        continue;
      }
      program(one.layer)->ExportState(*handle, state_type(), h, c);
      if (absl::Status failed = handle->failure(); !failed.ok()) return LostState(failed);
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::StatusOr<SessionStatePtr> SessionModel::Adopt(const SessionModel& other, const SessionStatePtr& state) const {
  if (other.pinned_->engines.programs == pinned_->engines.programs && other.kept_type_ == kept_type_) return state;
  absl::StatusOr<std::vector<OutputTensor>> tensors = other.Export(*state);
  if (!tensors.ok()) return tensors.status();
  std::vector<NamedTensor> views;
  for (const OutputTensor& tensor : *tensors) {
    views.push_back({tensor.name, {tensor.type, tensor.shape, std::as_bytes(std::span(tensor.bytes))}});
  }
  absl::StatusOr<int64_t> rows = CheckTensors(views);
  if (!rows.ok()) {
    return FieldError("state_of_session",
                      absl::StrCat("the state of that session does not fit: ", rows.status().message()));
  }
  return Import(views, *rows);
}

}  // namespace rnnserve
