// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/cpu_program.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <utility>

#include "engine/cpu/element_runs.h"
#include "engine/cpu/gru_gates.h"
#include "engine/cpu/lstm_gates.h"
#include "engine/cpu/product.h"
#include "engine/cpu/recurrent_step.h"
#include "engine/cpu/rnn_gates.h"

namespace rnnserve::cpu {
namespace {

// What the inputs and the gates of a stretch may take together, unless a single step of a group needs more. About the
// size of a second-level cache; a longer stretch would only push the weights out.
constexpr size_t kStretchBytes = size_t{1} << 20;

template <typename T>
std::unique_ptr<const RecurrentStep<T>> MakeStep(const Cell& cell) {
  switch (cell.spec().kind) {
    case CellKind::kLstm:
      return MakeLstmStep<T>(cell);
    case CellKind::kGru:
      return MakeGruStep<T>(cell);
    case CellKind::kRnn:
      break;
  }
  return MakeRnnStep<T>(cell);
}

template <typename T>
class CpuProgram : public Program {
 public:
  CpuProgram(const Cell& cell, std::shared_ptr<Helper> helper)
      : helper_(std::move(helper)),
        type_(cell.spec().data_type),
        has_cell_state_(cell.spec().kind == CellKind::kLstm),
        inputs_(static_cast<size_t>(cell.spec().input_size)),
        units_(static_cast<size_t>(cell.spec().hidden_size)),
        w_(cell.weights<T>().w.data(), static_cast<size_t>(GateCount(cell.spec().kind)), units_, inputs_),
        step_(MakeStep<T>(cell)),
        x_stride_(RowStride<T>(inputs_)),
        gates_stride_(RowStride<T>(step_->gate_columns())),
        state_stride_(RowStride<T>(units_)),
        stretch_rows_(std::max<size_t>(1, kStretchBytes / sizeof(T) / (x_stride_ + gates_stride_))) {}

  std::unique_ptr<State> NewState() const override;
  void ImportState(DataType type, const std::byte* h, const std::byte* c, State& state) const override;
  void ExportState(const State& state, DataType type, std::byte* h, std::byte* c) const override;
  std::unique_ptr<Workspace> NewWorkspace() const override { return std::make_unique<CpuWorkspace<T>>(); }
  absl::Status Advance(std::span<const SequenceSlice> slices, Workspace& workspace) const override;
  int64_t packed_bytes() const override { return static_cast<int64_t>(w_.bytes() + step_->packed_bytes()); }

 private:
  using Scratch = CpuWorkspace<T>;

  void LoadStates(Scratch& scratch) const;
  void StoreStates(Scratch& scratch) const;
  int64_t Work(std::span<const SequenceSlice> slices) const;
  HelpRecord& RecordOf(size_t rows) const {
    return help_[std::clamp<size_t>(static_cast<size_t>(std::bit_width(rows)), 1, help_.size()) - 1];
  }
  void RunStretch(const RowGroup& group, Scratch& scratch, Team& team) const;
  void GatherInputs(const RowGroup& group, Scratch& scratch) const;
  void ScatterOutputs(std::span<const SequenceSlice* const> rows, int64_t step, const T* h) const;

  std::shared_ptr<Helper> helper_;
  // For 1, 2, 4 and more rows: what help gains differs. Touched by the Team that holds the helper.
  mutable std::array<HelpRecord, 4> help_;
  DataType type_;
  bool has_cell_state_;
  size_t inputs_;
  size_t units_;
  PackedMatrix<T> w_;
  std::unique_ptr<const RecurrentStep<T>> step_;
  size_t x_stride_;
  size_t gates_stride_;
  size_t state_stride_;
  size_t stretch_rows_;
};

template <typename T>
std::unique_ptr<State> CpuProgram<T>::NewState() const {
  auto state = std::make_unique<CpuState<T>>();
  state->values.resize(has_cell_state_ ? 2 * units_ : units_);
  return state;
}

template <typename T>
void CpuProgram<T>::ImportState(DataType type, const std::byte* h, const std::byte* c, State& state) const {
  const auto import = [this, type](const std::byte* source, T* target) {
    if (source == nullptr) return void(std::fill_n(target, units_, T{0}));
    WidenElements(type, source, target, units_);
  };
  T* const own = static_cast<CpuState<T>&>(state).values.data();
  import(h, own);
  if (has_cell_state_) import(c, own + units_);
}

template <typename T>
void CpuProgram<T>::ExportState(const State& state, DataType type, std::byte* h, std::byte* c) const {
  const T* const own = static_cast<const CpuState<T>&>(state).values.data();
  if (h != nullptr) NarrowElements(own, type, h, units_);
  if (c != nullptr && has_cell_state_) NarrowElements(own + units_, type, c, units_);
}

// All states are read before any is written: a slice's `after` may be the `before` that another one forks from.
template <typename T>
absl::Status CpuProgram<T>::Advance(std::span<const SequenceSlice> slices, Workspace& workspace) const {
  auto& scratch = static_cast<Scratch&>(workspace);
  Team team(helper_.get(), Work(slices), scratch.is_alone, &RecordOf(slices.size()));
  scratch.plan.Sort(slices);
  LoadStates(scratch);
  for (const RowGroup& group : scratch.plan.Groups()) {
    int64_t step = 0;
    while (scratch.plan.Plan(group, step, stretch_rows_, scratch.stretch)) {
      RunStretch(group, scratch, team);
      step += static_cast<int64_t>(scratch.stretch.active.size());
    }
  }
  StoreStates(scratch);
  return absl::OkStatus();
}

template <typename T>
int64_t CpuProgram<T>::Work(std::span<const SequenceSlice> slices) const {
  int64_t steps = 0;
  for (const SequenceSlice& slice : slices) steps += slice.steps;
  return steps * static_cast<int64_t>(w_.columns() * (inputs_ + units_));
}

// Padding is zeroed too: it takes part in the element-wise work.
template <typename T>
void LoadRow(const T* source, size_t units, size_t stride, T* target) {
  const size_t count = source == nullptr ? 0 : units;
  std::copy_n(source, count, target);
  std::fill(target + count, target + stride, T{0});
}

template <typename T>
void CpuProgram<T>::LoadStates(Scratch& scratch) const {
  const auto rows = scratch.plan.rows();
  scratch.h.Grow(rows.size() * state_stride_);
  if (has_cell_state_) scratch.c.Grow(rows.size() * state_stride_);
  for (size_t row = 0; row < rows.size(); ++row) {
    const auto* before = static_cast<const CpuState<T>*>(rows[row]->before);
    const T* const h = before ? before->values.data() : nullptr;
    LoadRow(h, units_, state_stride_, scratch.h.data() + row * state_stride_);
    if (!has_cell_state_) continue;
    LoadRow(h ? h + units_ : nullptr, units_, state_stride_, scratch.c.data() + row * state_stride_);
  }
}

template <typename T>
void CpuProgram<T>::StoreStates(Scratch& scratch) const {
  const auto rows = scratch.plan.rows();
  for (size_t row = 0; row < rows.size(); ++row) {
    T* const after = static_cast<CpuState<T>&>(*rows[row]->after).values.data();
    std::copy_n(scratch.h.data() + row * state_stride_, units_, after);
    if (has_cell_state_) std::copy_n(scratch.c.data() + row * state_stride_, units_, after + units_);
  }
}

template <typename T>
void CpuProgram<T>::RunStretch(const RowGroup& group, Scratch& scratch, Team& team) const {
  const Stretch& stretch = scratch.stretch;
  const auto rows = scratch.plan.rows().subspan(group.first, group.count);
  GatherInputs(group, scratch);
  scratch.gates.Grow(stretch.total * gates_stride_);
  Multiply<T>(stretch.total, {scratch.x.data(), x_stride_}, w_, step_->input_bias(),
              {scratch.gates.data(), gates_stride_}, team);
  T* gates = scratch.gates.data();
  T* h = scratch.h.data() + group.first * state_stride_;
  T* c = has_cell_state_ ? scratch.c.data() + group.first * state_stride_ : nullptr;
  for (size_t k = 0; k < stretch.active.size(); ++k) {
    const size_t active = stretch.active[k];
    step_->Run({active, {gates, gates_stride_}, {h, state_stride_}, {c, state_stride_}}, team);
    ScatterOutputs(rows.first(active), stretch.first_step + static_cast<int64_t>(k), h);
    gates += active * gates_stride_;
  }
}

template <typename T>
void CpuProgram<T>::GatherInputs(const RowGroup& group, Scratch& scratch) const {
  scratch.x.Grow(scratch.stretch.total * x_stride_);
  if (inputs_ == 0) return;
  const auto rows = scratch.plan.rows().subspan(group.first, group.count);
  T* target = scratch.x.data();
  int64_t step = scratch.stretch.first_step;
  for (const size_t active : scratch.stretch.active) {
    for (const SequenceSlice* row : rows.first(active)) {
      WidenElements(type_, row->x + step * row->x_stride, target, inputs_);
      target += x_stride_;
    }
    ++step;
  }
}

template <typename T>
void CpuProgram<T>::ScatterOutputs(std::span<const SequenceSlice* const> rows, int64_t step, const T* h) const {
  for (const SequenceSlice* row : rows) {
    if (row->y != nullptr) NarrowElements(h, type_, row->y + step * row->y_stride, units_);
    h += state_stride_;
  }
}

}  // namespace

template <typename T>
ProgramPtr MakeCpuProgram(const Cell& cell, std::shared_ptr<Helper> helper) {
  return std::make_shared<CpuProgram<T>>(cell, std::move(helper));
}

template ProgramPtr MakeCpuProgram<float>(const Cell&, std::shared_ptr<Helper>);
template ProgramPtr MakeCpuProgram<double>(const Cell&, std::shared_ptr<Helper>);

}  // namespace rnnserve::cpu
