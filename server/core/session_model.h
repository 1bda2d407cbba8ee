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
#include "server/core/core.h"
#include "server/sessions/session_state.h"

namespace rnnserve {

// One tensor of a state: h or c of one layer.
struct StateTensor {
  std::string name;  // initial_h, initial_c, initial_hidden_state, ...; of several layers initial_h.0, ...
  size_t layer = 0;
  bool is_cell = false;  // c
  int64_t hidden_size = 0;
  bool rows_first = false;  // [N, 1, H], else [1, N, H]
};

// DATA_LOSS, of an engine whose device took the state along, as sessions tell it; other statuses as they are.
absl::Status LostState(const absl::Status& status);

class SessionModel final : public SessionSubject {
 public:
  // `pinned` runs forwards. `outputs`: of a chunk that names none; empty: the default.
  SessionModel(PinnedModelPtr pinned, std::string model_name, std::vector<std::string> outputs,
               SessionCountersPtr counters)
      : SessionSubject(std::move(counters)),
        pinned_(std::move(pinned)),
        model_name_(std::move(model_name)),
        outputs_(std::move(outputs)) {}

  const PinnedModelPtr& pinned() const { return pinned_; }
  const StackSpec& stack() const { return pinned_->model->stack(); }
  const std::string& fingerprint() const { return pinned_->model->fingerprint(); }
  const std::string& model_name() const { return model_name_; }
  const std::vector<std::string>& outputs() const { return outputs_; }
  size_t layers() const { return pinned_->programs.size(); }
  // OK, or DATA_LOSS once an engine that it runs on is out of service: a session stays on the engine it began on.
  absl::Status CanGoOn() const;
  // Of handles: always the compute type.
  DataType state_type() const { return ComputeType(stack().data_type()); }

  std::vector<StateTensor> StateTensors() const;
  int64_t StateBytes(int64_t rows) const;

  // A new state of zeros, for an operation to write. Its memory is zeroed before it is given back.
  std::shared_ptr<State> NewHandle(size_t layer) const;
  SessionStatePtr Zeros(int64_t rows) const;
  SessionStatePtr Make(int64_t rows, SessionState::Handles handles) const;
  // As a run takes it, and what it gave.
  RunStates ToRun(const SessionState& state) const;
  SessionStatePtr FromRun(int64_t rows, RunStates states) const;

  // Names, types and shapes of what came as a state; all rows of all tensors agree. Returns the rows. Field errors have
  // the paths of StateTensors: tensors[initial_h].
  absl::StatusOr<int64_t> CheckTensors(std::span<const NamedTensor> tensors) const;
  // Checked tensors; those left out are zeros.
  absl::StatusOr<SessionStatePtr> Import(std::span<const NamedTensor> tensors, int64_t rows) const;
  absl::StatusOr<std::vector<OutputTensor>> Export(const SessionState& state) const;
  // The state of a session of `other`, whose tensors must fit; shared where the programs are the same.
  absl::StatusOr<SessionStatePtr> Adopt(const SessionModel& other, const SessionStatePtr& state) const;
  // Row k becomes the old row rows[k], by reference. All of them are rows of `state`.
  SessionStatePtr Select(const SessionState& state, std::span<const int64_t> rows) const;

 private:
  const Program& program(size_t layer) const { return *pinned_->programs[layer].front(); }
  // The handle of a row, null for zeros.
  static const State* HandleOf(const SessionState& state, size_t layer, int64_t row);

  const PinnedModelPtr pinned_;
  const std::string model_name_;  // "" for inline operators
  const std::vector<std::string> outputs_;
};
using SessionModelPtr = std::shared_ptr<const SessionModel>;

}  // namespace rnnserve
