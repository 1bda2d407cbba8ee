// SPDX-License-Identifier: Apache-2.0
// A session's state as tensors. Inside, each is of one layer and has the operator's name; callers call and join them as
// the model's file does, where it names them.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "engine/float16.h"
#include "engine/op/signature.h"
#include "engine/op/tensor_check.h"
#include "engine/op/wording.h"
#include "server/sessions/contract/allocated_bytes.h"
#include "server/sessions/execution/session_model.h"

namespace rnnserve {
namespace {

std::string Names(std::span<const NamedState> states) {
  return absl::StrJoin(states, ", ", [](std::string* out, const NamedState& one) { out->append(one.name); });
}

std::string TensorField(std::string_view name) { return absl::StrCat("tensors[", Shortened(name), "]"); }

// `count` of them, one after the other.
Shape ShapeOf(const StateTensor& tensor, int64_t rows, size_t count = 1) {
  if (tensor.is_matrix) return {rows, tensor.hidden_size};
  const auto directions = static_cast<int64_t>(count);
  return tensor.rows_first ? Shape{rows, directions, tensor.hidden_size} : Shape{directions, rows, tensor.hidden_size};
}

// The rows of a tensor of this state; refused if its shape is another's.
absl::StatusOr<int64_t> RowsOf(const NamedTensor& tensor, const NamedState& state) {
  const StateTensor& part = state.parts[0];
  const Shape& shape = tensor.tensor.shape;
  const bool has_rank = shape.size() == (part.is_matrix ? 2 : 3);
  const int64_t rows = has_rank ? shape[part.rows_first || part.is_matrix ? 0 : 1] : 0;
  if (has_rank && rows >= 1 && shape == ShapeOf(part, rows, state.parts.size())) return rows;
  const std::string expected = part.is_matrix ? absl::StrCat("[B, ", part.hidden_size, "]")
                               : part.rows_first
                                   ? absl::StrCat("[B, ", state.parts.size(), ", ", part.hidden_size, "]")
                                   : absl::StrCat("[", state.parts.size(), ", B, ", part.hidden_size, "]");
  return FieldError(TensorField(tensor.name) + ".shape", absl::StrCat(tensor.name, " has shape ", ShortShape(shape),
                                                                      "; expected ", expected, " for B rows"));
}

}  // namespace

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

std::vector<NamedState> SessionModel::FileStates() const {
  std::vector<NamedState> states;
  if (stack().file_inputs() == nullptr) return states;
  const std::vector<StateTensor> tensors = StateTensors();
  for (const PipelineInput& input : *stack().file_inputs()) {
    const bool is_cell = input.kind == PipelineInput::Kind::kInitialC;
    if (!is_cell && input.kind != PipelineInput::Kind::kInitialH) continue;
    NamedState& state = states.emplace_back(NamedState{input.name, {}});
    for (const size_t layer : input.layers) {
      const auto is = [&](const StateTensor& one) { return one.layer == layer && one.is_cell == is_cell; };
      state.parts.push_back(*std::ranges::find_if(tensors, is));
      state.parts.back().is_matrix = input.shape.size() == 2;
    }
  }
  return states;
}

std::vector<NamedState> SessionModel::NamedStates() const {
  std::vector<NamedState> states;
  if (!by_operator_names_) states = FileStates();
  const size_t of_file = states.size();
  for (StateTensor& one : StateTensors()) {
    const auto has = [&](const NamedState& state) {
      return std::ranges::find(state.parts, one.name, &StateTensor::name) != state.parts.end();
    };
    if (std::any_of(states.begin(), states.begin() + static_cast<std::ptrdiff_t>(of_file), has)) continue;
    std::string name = one.name;
    states.push_back({std::move(name), {std::move(one)}});
  }
  return states;
}

// Only states whose layers lie one after the other can be parted; what cannot is refused by its name.
absl::StatusOr<std::vector<NamedTensor>> SessionModel::ByLayer(std::span<const NamedTensor> tensors) const {
  std::vector<NamedTensor> parted;
  const std::vector<NamedState> of_file = FileStates();
  for (const NamedTensor& tensor : tensors) {
    NamedState state;
    const TensorView& whole = tensor.tensor;
    if (const auto found = std::ranges::find(of_file, tensor.name, &NamedState::name); found != of_file.end()) {
      if (const absl::StatusOr<int64_t> rows = RowsOf(tensor, *found); !rows.ok()) return rows.status();
      state = *found;
    } else {
      for (StateTensor& one : StateTensors()) {
        if (one.name == absl::StrCat(tensor.name, ".", one.layer)) state.parts.push_back(std::move(one));
      }
      const auto differs = [&](const StateTensor& one) {
        return one.rows_first || one.hidden_size != state.parts[0].hidden_size;
      };
      if (state.parts.empty() || std::ranges::any_of(state.parts, differs) || whole.shape.size() != 3 ||
          whole.shape[0] != static_cast<int64_t>(state.parts.size())) {
        parted.push_back(tensor);
        continue;
      }
    }
    const size_t bytes = whole.data.size() / state.parts.size();
    for (size_t k = 0; k < state.parts.size(); ++k) {
      StateTensor& part = state.parts[k];
      const int64_t rows = whole.shape[part.rows_first || part.is_matrix ? 0 : 1];
      part.is_matrix = false;
      const Shape shape = ShapeOf(part, rows);
      parted.push_back({part.name, {whole.type, shape, whole.data.subspan(k * bytes, bytes)}});
    }
  }
  return parted;
}

absl::StatusOr<int64_t> SessionModel::CheckTensors(std::span<const NamedTensor> tensors) const {
  ASSIGN_OR_RETURN(const std::vector<NamedTensor> by_layer, ByLayer(tensors));
  return CheckLayers(by_layer);
}

absl::StatusOr<int64_t> SessionModel::CheckLayers(std::span<const NamedTensor> tensors) const {
  const std::vector<NamedState> named = NamedStates();
  const std::vector<StateTensor> known = StateTensors();
  if (tensors.empty()) {
    return FieldError("tensors", absl::StrCat("the state has no tensors; it has ", Names(named), ", or leave it out"));
  }
  std::set<std::string_view> seen;
  std::optional<int64_t> rows;
  for (const NamedTensor& tensor : tensors) {
    const auto is = [&](const StateTensor& one) { return one.name == tensor.name; };
    const auto found = std::find_if(known.begin(), known.end(), is);
    const std::string field = TensorField(tensor.name);
    if (found == known.end()) {
      return FieldError(field,
                        absl::StrCat("there is no state tensor ", Quoted(tensor.name), "; it has ", Names(named)));
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
    ASSIGN_OR_RETURN(const int64_t came, RowsOf(tensor, {found->name, {*found}}));
    if (rows && *rows != came) {
      return FieldError(field + ".shape",
                        absl::StrCat(tensor.name, " has ", came, " rows, but ", tensors[0].name, " has ", *rows));
    }
    rows = came;
  }
  if (seen.size() == known.size()) return *rows;
  std::vector<std::string> missing;
  for (const NamedState& one : named) {
    const auto lacks = [&](const StateTensor& part) { return !seen.contains(part.name); };
    if (std::ranges::any_of(one.parts, lacks)) missing.push_back(one.name);
  }
  return FieldError("tensors", absl::StrCat(absl::StrJoin(missing, ", "), missing.size() == 1 ? " is" : " are",
                                            " missing; a state comes whole, with ", Names(named)));
}

absl::StatusOr<SessionStatePtr> SessionModel::Import(std::span<const NamedTensor> tensors, int64_t rows) const {
  ASSIGN_OR_RETURN(const std::vector<NamedTensor> by_layer, ByLayer(tensors));
  return ImportLayers(by_layer, rows);
}

absl::StatusOr<SessionStatePtr> SessionModel::ImportLayers(std::span<const NamedTensor> tensors, int64_t rows) const {
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
      ASSIGN_OR_RETURN(std::shared_ptr<const State> handle,
                       NewHandle(layer, from[0] + offset, from[1] == nullptr ? nullptr : from[1] + offset));
      handles.push_back(std::move(handle));
    }
  }
  return Make(rows, std::move(handles));
}

absl::StatusOr<std::vector<OutputTensor>> SessionModel::ExportAs(const std::vector<NamedState>& named,
                                                                 const SessionState& state) const {
  std::vector<OutputTensor> tensors;
  for (const NamedState& one : named) {
    const size_t row_bytes = static_cast<size_t>(one.parts[0].hidden_size) * ByteSize(state_type());
    const size_t part_bytes = static_cast<size_t>(state.rows) * row_bytes;
    OutputTensor tensor{one.name, state_type(), ShapeOf(one.parts[0], state.rows, one.parts.size()),
                        Elements(one.parts.size() * part_bytes)};
    for (size_t k = 0; k < one.parts.size(); ++k) {
      const StateTensor& part = one.parts[k];
      for (int64_t row = 0; row < state.rows; ++row) {
        const State* handle = HandleOf(state, part.layer, row);
        if (handle == nullptr) continue;
        auto* to =
            reinterpret_cast<std::byte*>(tensor.bytes.data()) + k * part_bytes + static_cast<size_t>(row) * row_bytes;
        std::byte* const h = part.is_cell ? nullptr : to;
        std::byte* const c = part.is_cell ? to : nullptr;
        if (is_narrow()) {
          static_cast<const NarrowState&>(*handle).Export(h, c);
          continue;
        }
        program(part.layer)->ExportState(*handle, state_type(), h, c);
        if (absl::Status failed = handle->failure(); !failed.ok()) return LostState(failed);
      }
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::StatusOr<SessionStatePtr> SessionModel::Adopt(const SessionModel& other, const SessionStatePtr& state) const {
  if (other.pinned_->engines.programs == pinned_->engines.programs && other.kept_type_ == kept_type_) return state;
  std::vector<NamedState> layers_of_other;
  for (StateTensor& one : other.StateTensors()) layers_of_other.push_back({one.name, {one}});
  ASSIGN_OR_RETURN(std::vector<OutputTensor> tensors, other.ExportAs(layers_of_other, *state));
  std::vector<NamedTensor> views;
  for (const OutputTensor& tensor : tensors) {
    views.push_back({tensor.name, {tensor.type, tensor.shape, std::as_bytes(std::span(tensor.bytes))}});
  }
  absl::StatusOr<int64_t> rows = CheckLayers(views);
  if (!rows.ok()) {
    return FieldError("state_of_session",
                      absl::StrCat("the state of that session does not fit: ", rows.status().message()));
  }
  return ImportLayers(views, *rows);
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

}  // namespace rnnserve
