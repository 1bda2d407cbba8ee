// SPDX-License-Identifier: Apache-2.0
// What a session runs, pinned for its life: the model, its programs on one engine, the options; and the state's tensors
// to and from handles.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "engine/op/stack.h"
#include "server/core/call.h"
#include "server/sessions/contract/session_state.h"
#include "server/sessions/execution/narrow_state.h"

namespace rnnserve {

// h or c of one layer.
struct StateTensor {
  std::string name;  // initial_h, initial_c, initial_hidden_state, ...; of several layers initial_h.0, ...
  size_t layer = 0;
  bool is_cell = false;  // c
  int64_t hidden_size = 0;
  bool rows_first = false;  // [N, 1, H], else [1, N, H]
  bool is_matrix = false;   // [B, H] in the file: of one layer and direction
};

// A tensor of a state as callers see it: that of one layer, or those of several one after the other.
struct NamedState {
  std::string name;
  std::vector<StateTensor> parts;  // all of one size
};

// Turns the failure of an engine whose device has lost the state into DATA_LOSS; other statuses stay as they are.
absl::Status LostState(const absl::Status& status);

class SessionModel final : public SessionSubject {
 public:
  // `pinned` runs forwards. `outputs`: of a chunk that names none; empty: the default. `kept_type`: of states between
  // operations: the compute type, or 16 bits where that is float32. `by_operator_names`: Open used the operators'
  // names, though the file has its own.
  SessionModel(PinnedModelPtr pinned, std::string model_name, std::vector<std::string> outputs, DataType kept_type,
               SessionCountersPtr counters, bool by_operator_names = false)
      : SessionSubject(std::move(counters)),
        pinned_(std::move(pinned)),
        model_name_(std::move(model_name)),
        outputs_(std::move(outputs)),
        kept_type_(kept_type),
        by_operator_names_(by_operator_names) {}

  const PinnedModelPtr& pinned() const { return pinned_; }
  const StackSpec& stack() const { return pinned_->model->stack(); }
  const std::string& fingerprint() const { return pinned_->model->fingerprint(); }
  const std::string& model_name() const { return model_name_; }
  const std::vector<std::string>& outputs() const { return outputs_; }
  size_t layers() const { return pinned_->engines.programs.size(); }
  // OK, or DATA_LOSS once an engine that it runs on is out of service: a session stays on the engine it began on.
  absl::Status CanGoOn() const;
  bool IsLost() const override { return !CanGoOn().ok(); }
  // The type of states in messages: always the compute type.
  DataType state_type() const { return ComputeType(stack().data_type()); }
  DataType kept_type() const { return kept_type_; }
  bool by_operator_names() const { return by_operator_names_; }
  // What brings a chunk's steps, as this session's caller calls it.
  std::string data_input() const {
    return by_operator_names_ && IsDataInput(stack(), "X") ? "X" : DataInputName(stack());
  }

  std::vector<StateTensor> StateTensors() const;
  // The states by the names that this session's caller uses: the file's, where the file names its states.
  std::vector<NamedState> NamedStates() const;
  // Bytes of the states of `rows` rows in messages.
  int64_t TensorBytes(int64_t rows) const {
    return rows * StateValues() * static_cast<int64_t>(ByteSize(state_type()));
  }
  // Bytes that a kept reply may take in the window, with the tensors of a final state; and those of a kept state.
  int64_t KeptReplyBytes(int64_t rows) const;
  int64_t KeptBytes(int64_t rows) const { return rows * StateValues() * static_cast<int64_t>(ByteSize(kept_type_)); }

  // What a session begins with: zeros, or what the model's file has.
  absl::StatusOr<SessionStatePtr> Start(int64_t rows) const;
  SessionStatePtr Make(int64_t rows, SessionState::Handles handles) const;
  // Converts a session's state to the states that a run starts from, and back from those that it gave.
  RunStates ToRun(const SessionState& state) const;
  absl::StatusOr<SessionStatePtr> FromRun(int64_t rows, RunStates states) const;

  // Names, types and shapes of what came as a state; all tensors are there, with the same rows. Returns the rows. Field
  // errors have the paths of StateTensors: tensors[initial_h]. A stack's states may come whole as well, as Infer takes
  // them: initial_h [L, B, H], or by the file's names.
  absl::StatusOr<int64_t> CheckTensors(std::span<const NamedTensor> tensors) const;
  // Checked tensors.
  absl::StatusOr<SessionStatePtr> Import(std::span<const NamedTensor> tensors, int64_t rows) const;
  // The state as tensors, with the names of NamedStates.
  absl::StatusOr<std::vector<OutputTensor>> Export(const SessionState& state) const {
    return ExportAs(NamedStates(), state);
  }
  // The state of a session of `other`, whose tensors must fit; shared where the programs are the same.
  absl::StatusOr<SessionStatePtr> Adopt(const SessionModel& other, const SessionStatePtr& state) const;
  // Row k becomes the old row rows[k], by reference. All of them are rows of `state`.
  SessionStatePtr Select(const SessionState& state, std::span<const int64_t> rows) const;

 private:
  // The same tensors, whole ones parted into those of the layers, by the names of StateTensors.
  absl::StatusOr<std::vector<NamedTensor>> ByLayer(std::span<const NamedTensor> tensors) const;
  // Tensors with the names of ByLayer.
  absl::StatusOr<int64_t> CheckLayers(std::span<const NamedTensor> tensors) const;
  absl::StatusOr<SessionStatePtr> ImportLayers(std::span<const NamedTensor> tensors, int64_t rows) const;
  absl::StatusOr<std::vector<OutputTensor>> ExportAs(const std::vector<NamedState>& named,
                                                     const SessionState& state) const;
  // Those of the file's states; empty where it names none.
  std::vector<NamedState> FileStates() const;
  const ProgramPtr& program(size_t layer) const { return pinned_->engines.programs[layer].front(); }
  bool is_narrow() const { return kept_type_ != state_type(); }
  NarrowState::Form NarrowForm(size_t layer) const;
  // Numbers that a row's state has in all layers.
  int64_t StateValues() const;
  // From a row's tensors; null: zeros.
  absl::StatusOr<std::shared_ptr<const State>> NewHandle(size_t layer, const std::byte* h, const std::byte* c) const;
  // The handle of a row, null for zeros.
  static const State* HandleOf(const SessionState& state, size_t layer, int64_t row);

  const PinnedModelPtr pinned_;
  const std::string model_name_;  // "" for inline operators
  const std::vector<std::string> outputs_;
  const DataType kept_type_;
  const bool by_operator_names_;
};
using SessionModelPtr = std::shared_ptr<const SessionModel>;

}  // namespace rnnserve
