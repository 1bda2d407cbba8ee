// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/cpu_program.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <iterator>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "engine/cpu/cell_sizes.h"
#include "engine/cpu/element_runs.h"
#include "engine/cpu/gru_step.h"
#include "engine/cpu/lstm_step.h"
#include "engine/cpu/recurrent_step.h"
#include "engine/cpu/rnn_step.h"
#include "engine/cpu/tile_product.h"

namespace rnnserve::cpu {
namespace {

template <typename T>
std::unique_ptr<const RecurrentStep<T>> MakeStep(const Cell& cell, WeightForm weights) {
  switch (cell.spec().kind) {
    case CellKind::kLstm:
      return MakeLstmStep<T>(cell, weights);
    case CellKind::kGru:
      return MakeGruStep<T>(cell, weights);
    case CellKind::kRnn:
      break;
  }
  return MakeRnnStep<T>(cell, weights);
}

template <typename T>
bool TakesNarrowRows(const RecurrentStep<T>& step) {
  return std::ranges::all_of(step.inputs(), [](const CellInputs<T>& part) { return part.TakesNarrowRows(); });
}

template <typename T>
CellSizes SizesOf(const CellSpec& spec, WeightForm weights, const RecurrentStep<T>& step) {
  const auto inputs = static_cast<size_t>(spec.input_size), units = static_cast<size_t>(spec.hidden_size);
  size_t columns = 0;
  for (const CellInputs<T>& part : step.inputs()) columns += part.columns();
  return {.weights = weights,
          .has_parts = FormOf(spec, inputs, weights).has_parts() || FormOf(spec, units, weights).has_parts(),
          .packed_bytes = step.packed_bytes(),
          .inputs = inputs,
          .input_columns = columns,
          .units = units};
}

template <typename T>
class CpuProgram : public Program {
 public:
  CpuProgram(const Cell& cell, WeightForm weights, std::shared_ptr<Helper> helper)
      : helper_(std::move(helper)),
        type_(cell.spec().data_type),
        has_cell_state_(cell.spec().kind == CellKind::kLstm),
        step_(MakeStep<T>(cell, weights)),
        sizes_(SizesOf(cell.spec(), weights, *step_)),
        x_stride_(RowStride<T>(sizes_.inputs)),
        inputs_stride_(RowStride<T>(sizes_.input_columns)),
        state_stride_(RowStride<T>(sizes_.units)),
        has_narrow_inputs_(type_ == DataType::kFloat && sizes_.inputs > 0 && TakesNarrowRows(*step_)),
        scratch_stride_(step_->scratch_columns() == 0 ? 0 : RowStride<T>(step_->scratch_columns())),
        stretch_rows_(sizes_.StretchRows(RowBytes())) {}

  std::unique_ptr<State> NewState() const override;
  void ImportState(DataType type, const std::byte* h, const std::byte* c, State& state) const override;
  void ExportState(const State& state, DataType type, std::byte* h, std::byte* c) const override;
  std::unique_ptr<Workspace> NewWorkspace() const override { return std::make_unique<CpuWorkspace<T>>(); }
  absl::Status Advance(std::span<const SequenceSlice> slices, Workspace& workspace) const override;
  int64_t packed_bytes() const override { return static_cast<int64_t>(step_->packed_bytes()); }

 private:
  using Scratch = CpuScratch<T>;

  // Of x and the inputs of a row, in a stretch.
  size_t RowBytes() const;
  HalvingWay& HalvingOf(size_t rows) const {
    return halving_[std::clamp<size_t>(static_cast<size_t>(std::bit_width(rows)), 4, 7) - 4];
  }
  static Lengths LengthsOf(std::span<const SequenceSlice> slices);
  // Whether products of this run take rows in another form, if there is one.
  bool MayPrepare(const Scratch& scratch) const { return !sizes_.has_parts || scratch.by_tiles; }
  void RunAll(std::span<const SequenceSlice> slices, Scratch& scratch, Team& team) const;
  void RunHalves(std::span<const SequenceSlice> slices, std::span<Scratch, 2> scratch, Team& team) const;
  void RunRows(Scratch& scratch, Team& team) const;
  void LoadStates(Scratch& scratch) const;
  void StoreStates(Scratch& scratch) const;
  TilesWay* TilesWayOf(size_t rows, const Lengths& steps, bool is_shared, CpuWorkspace<T>& own) const;
  HelpRecord& RecordOf(size_t rows) const {
    return help_[std::clamp<size_t>(static_cast<size_t>(std::bit_width(rows)), 1, help_.size()) - 1];
  }
  void RunStretch(const RowGroup& group, Scratch& scratch, Team& team) const;
  Factors<T> FindInputs(const RowGroup& group, Scratch& scratch) const;
  Factors<T> Prepared(size_t count, Rows<const T> rows, size_t depth, const Scratch& scratch,
                      AlignedBuffer<std::byte>& target) const;
  void ScatterOutputs(std::span<const SequenceSlice* const> rows, int64_t step, const T* h) const;

  std::shared_ptr<Helper> helper_;
  // For 1, 2, 4 and more rows: what help gains differs. Touched by the Team that holds the helper.
  mutable std::array<HelpRecord, 4> help_;
  // For 8, 16, 32, 64 and more rows.
  mutable std::array<HalvingWay, 4> halving_;
  DataType type_;
  bool has_cell_state_;
  std::unique_ptr<const RecurrentStep<T>> step_;
  CellSizes sizes_;
  size_t x_stride_;
  size_t inputs_stride_;
  size_t state_stride_;
  bool has_narrow_inputs_;  // where products by tiles take them
  size_t scratch_stride_;
  size_t stretch_rows_;
};

template <typename T>
std::unique_ptr<State> CpuProgram<T>::NewState() const {
  auto state = std::make_unique<CpuState<T>>();
  state->values.resize(has_cell_state_ ? 2 * sizes_.units : sizes_.units);
  return state;
}

template <typename T>
void CpuProgram<T>::ImportState(DataType type, const std::byte* h, const std::byte* c, State& state) const {
  const auto import = [this, type](const std::byte* source, T* target) {
    if (source == nullptr) return void(std::fill_n(target, sizes_.units, T{0}));
    WidenElements(type, source, target, sizes_.units);
  };
  T* const own = static_cast<CpuState<T>&>(state).values.data();
  import(h, own);
  if (has_cell_state_) import(c, own + sizes_.units);
}

template <typename T>
void CpuProgram<T>::ExportState(const State& state, DataType type, std::byte* h, std::byte* c) const {
  const T* const own = static_cast<const CpuState<T>&>(state).values.data();
  if (h != nullptr) NarrowElements(own, type, h, sizes_.units);
  if (c != nullptr && has_cell_state_) NarrowElements(own + sizes_.units, type, c, sizes_.units);
}

// All states are read before any is written: a slice's `after` may be the `before` that another one forks from.
template <typename T>
absl::Status CpuProgram<T>::Advance(std::span<const SequenceSlice> slices, Workspace& workspace) const {
  auto& own = static_cast<CpuWorkspace<T>&>(workspace);
  const Lengths steps = LengthsOf(slices);
  const int64_t work = steps.all * static_cast<int64_t>(sizes_.StepWork());
  Team team(helper_.get(), work, workspace.is_alone, &RecordOf(slices.size()));
  const bool is_shared = team.IsShared(), expects_help = is_shared && own.was_helped;
  TilesWay* const tiles = TilesWayOf(slices.size(), steps, expects_help, own);
  HalvingWay* const halving = is_shared && sizes_.MayHalve(slices.size(), steps) ? &HalvingOf(slices.size()) : nullptr;
  const bool by_tiles = tiles != nullptr && tiles->Next(true);
  for (Scratch& scratch : own.scratch) scratch.by_tiles = by_tiles;
  const bool halved = halving != nullptr && halving->Next(sizes_.HalvesAtFirst());
  const bool is_timed = tiles != nullptr || halving != nullptr;
  using Clock = std::chrono::steady_clock;
  const auto began = is_timed ? Clock::now() : Clock::time_point();
  halved ? RunHalves(slices, own.scratch, team) : RunAll(slices, own.scratch[0], team);
  if (is_shared) own.was_helped = team.WasHelped();
  if (!is_timed) return absl::OkStatus();
  const double pace = std::chrono::duration<double>(Clock::now() - began).count() / static_cast<double>(work);
  // Runs that the helper came too late for are of another kind; so are halves of so few rows that none goes by parts.
  const bool is_choice = !halved || slices.size() >= 2 * kPartsRows;
  const bool tries_tiles = tiles != nullptr && tiles->is_trying(),
             tries_halving = halving != nullptr && halving->is_trying();
  if (tiles != nullptr && is_choice && team.WasHelped() == expects_help && !tries_halving) tiles->Ran(pace);
  if (halving != nullptr && team.WasHelped() && !tries_tiles) halving->Ran(pace);
  return absl::OkStatus();
}

// Null: there is nothing to choose, or as seldom as not to matter.
template <typename T>
TilesWay* CpuProgram<T>::TilesWayOf(size_t rows, const Lengths& steps, bool is_shared, CpuWorkspace<T>& own) const {
  if (!sizes_.MayChooseTiles(rows, steps, is_shared)) return nullptr;
  const size_t kind = std::min(static_cast<size_t>(std::bit_width(rows)), std::size(own.tiles)) - 1;
  return &own.tiles[kind][steps.longest > 1 ? 1 : 0][is_shared ? 1 : 0];
}

template <typename T>
void CpuProgram<T>::RunAll(std::span<const SequenceSlice> slices, Scratch& scratch, Team& team) const {
  scratch.plan.Sort(slices);
  RunRows(scratch, team);
  StoreStates(scratch);
}

template <typename T>
void CpuProgram<T>::RunHalves(std::span<const SequenceSlice> slices, std::span<Scratch, 2> scratch, Team& team) const {
  // An exception must not leave the helper's thread.
  std::array<bool, 2> failed = {};
  team.Run(2, [&](size_t half) {
    try {
      Team alone;
      scratch[half].plan.Sort(slices, half, 2);
      RunRows(scratch[half], alone);
    } catch (const std::bad_alloc&) {
      failed[half] = true;
    }
  });
  if (failed[0] || failed[1]) throw std::bad_alloc();
  team.Run(2, [&](size_t half) { StoreStates(scratch[half]); });
}

template <typename T>
void CpuProgram<T>::RunRows(Scratch& scratch, Team& team) const {
  LoadStates(scratch);
  for (const RowGroup& group : scratch.plan.Groups()) {
    int64_t step = 0;
    while (scratch.plan.Plan(group, step, stretch_rows_, scratch.stretch)) {
      RunStretch(group, scratch, team);
      step += static_cast<int64_t>(scratch.stretch.active.size());
    }
  }
}

template <typename T>
Lengths CpuProgram<T>::LengthsOf(std::span<const SequenceSlice> slices) {
  Lengths steps;
  for (const SequenceSlice& slice : slices) {
    steps.all += slice.steps;
    steps.longest = std::max(steps.longest, slice.steps);
  }
  return steps;
}

template <typename T>
size_t CpuProgram<T>::RowBytes() const {
  size_t bytes = (x_stride_ + inputs_stride_) * sizeof(T);
  if constexpr (std::is_same_v<T, float>) {
    bytes += PreparedBytes(sizes_.weights, sizes_.inputs, kGroupRows, sizes_.input_columns) / kGroupRows;
  }
  return bytes;
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
  for (AlignedBuffer<T>& h : scratch.h) h.Grow(rows.size() * state_stride_);
  if (has_cell_state_) scratch.c.Grow(rows.size() * state_stride_);
  for (size_t row = 0; row < rows.size(); ++row) {
    const auto* before = static_cast<const CpuState<T>*>(rows[row]->before);
    const T* const h = before ? before->values.data() : nullptr;
    LoadRow(h, sizes_.units, state_stride_, scratch.h[0].data() + row * state_stride_);
    if (!has_cell_state_) continue;
    LoadRow(h ? h + sizes_.units : nullptr, sizes_.units, state_stride_, scratch.c.data() + row * state_stride_);
  }
}

template <typename T>
void CpuProgram<T>::StoreStates(Scratch& scratch) const {
  const auto rows = scratch.plan.rows();
  for (size_t row = 0; row < rows.size(); ++row) {
    T* const after = static_cast<CpuState<T>&>(*rows[row]->after).values.data();
    std::copy_n(scratch.h[rows[row]->steps % 2].data() + row * state_stride_, sizes_.units, after);
    if (has_cell_state_) std::copy_n(scratch.c.data() + row * state_stride_, sizes_.units, after + sizes_.units);
  }
}

template <typename T>
void CpuProgram<T>::RunStretch(const RowGroup& group, Scratch& scratch, Team& team) const {
  const Stretch& stretch = scratch.stretch;
  const auto rows = scratch.plan.rows().subspan(group.first, group.count);
  const Factors<T> x = FindInputs(group, scratch);
  scratch.scratch.Grow(group.count * scratch_stride_);
  if (scratch_stride_ != 0) {
    scratch.prepared_scratch.Grow(PreparedBytes(sizes_.weights, sizes_.units, group.count, sizes_.units));
  }
  // A single step's inputs are computed panel by panel.
  const bool ahead = stretch.active.size() > 1;
  if (ahead) {
    scratch.inputs.Grow(stretch.total * inputs_stride_);
    Rows<T> target = {scratch.inputs.data(), inputs_stride_};
    for (const CellInputs<T>& part : step_->inputs()) {
      part.Multiply(stretch.total, x, target, team);
      target = target.From(part.columns());
    }
  }
  const size_t first = group.first * state_stride_;
  const bool was_backwards = scratch.backwards;
  const auto run_steps = [&](Team& own, size_t thread) {
    size_t done = 0;
    bool backwards = was_backwards;
    for (size_t k = 0; k < stretch.active.size(); ++k) {
      const int64_t step = stretch.first_step + static_cast<int64_t>(k);
      const size_t active = stretch.active[k];
      T* const next_h = scratch.h[(step + 1) % 2].data() + first;
      backwards = sizes_.TurnsAround(active, ahead, scratch.by_tiles) && !backwards;
      step_->Run({.count = active,
                  .inputs = {ahead ? scratch.inputs.data() + done * inputs_stride_ : nullptr, inputs_stride_},
                  .x = ahead ? Factors<T>() : x,
                  .h = Prepared(active, {scratch.h[step % 2].data() + first, state_stride_}, sizes_.units, scratch,
                                scratch.prepared_h),
                  .next_h = {next_h, state_stride_},
                  .c = {has_cell_state_ ? scratch.c.data() + first : nullptr, state_stride_},
                  .scratch = {scratch.scratch.data(), scratch_stride_},
                  .prepared_scratch = scratch.prepared_scratch.data(),
                  .backwards = backwards},
                 own);
      done += active;
      if (thread == 0) ScatterOutputs(rows.first(active), step, next_h);
    }
    if (thread == 0) scratch.backwards = backwards;
  };
  const bool in_step = ahead && sizes_.MayGoInStep(rows.size());
  if (!in_step || !team.IsShared()) return run_steps(team, 0);
  team.RunInStep(run_steps);
}

// All inputs of a stretch. Those that tiles take are made narrow where the callers have them.
template <typename T>
Factors<T> CpuProgram<T>::FindInputs(const RowGroup& group, Scratch& scratch) const {
  const size_t total = scratch.stretch.total;
  const bool may_be_narrow = has_narrow_inputs_ && MayPrepare(scratch);
  const size_t parts = may_be_narrow ? TilePartsOf(sizes_.weights, sizes_.inputs, total, sizes_.input_columns) : 0;
  if (parts != 0) {
    const size_t bytes = TileRowBytes(parts, sizes_.inputs);
    scratch.prepared_x.Grow(total * bytes);
    std::byte* const narrow = scratch.prepared_x.data();
    const auto take = [&](const std::byte* x, size_t k) {
      return NarrowRowForTiles(parts, sizes_.inputs, x, narrow + k * bytes);
    };
    if (scratch.plan.ForInputs(group, scratch.stretch, take)) {
      return {.prepared = narrow, .one_by_tiles = scratch.by_tiles};
    }
  }
  scratch.x.Grow(total * x_stride_);
  if (sizes_.inputs != 0) {
    scratch.plan.ForInputs(group, scratch.stretch, [&](const std::byte* x, size_t k) {
      WidenElements(type_, x, scratch.x.data() + k * x_stride_, sizes_.inputs);
      return true;
    });
  }
  const Rows<const T> rows = {scratch.x.data(), x_stride_};
  if (parts != 0) return {rows.data, rows.stride};  // a number that parts cannot hold
  return Prepared(total, rows, sizes_.inputs, scratch, scratch.prepared_x);
}

template <typename T>
Factors<T> CpuProgram<T>::Prepared(size_t count, Rows<const T> rows, size_t depth, const Scratch& scratch,
                                   AlignedBuffer<std::byte>& target) const {
  Factors<T> factors = {rows.data, rows.stride};
  if constexpr (std::is_same_v<T, float>) {
    const size_t bytes = MayPrepare(scratch) ? PreparedBytes(sizes_.weights, depth, count, sizes_.input_columns) : 0;
    if (bytes > 0) {
      target.Grow(bytes);
      factors = Prepare(sizes_.weights, depth, count, sizes_.input_columns, rows, target.data());
    }
  }
  factors.one_by_tiles = scratch.by_tiles;
  return factors;
}

template <typename T>
void CpuProgram<T>::ScatterOutputs(std::span<const SequenceSlice* const> rows, int64_t step, const T* h) const {
  for (const SequenceSlice* row : rows) {
    if (row->y != nullptr) NarrowElements(h, type_, row->y + step * row->y_stride, sizes_.units);
    h += state_stride_;
  }
}

}  // namespace

template <typename T>
ProgramPtr MakeCpuProgram(const Cell& cell, WeightForm weights, std::shared_ptr<Helper> helper) {
  return std::make_shared<CpuProgram<T>>(cell, weights, std::move(helper));
}

template ProgramPtr MakeCpuProgram<float>(const Cell&, WeightForm, std::shared_ptr<Helper>);
template ProgramPtr MakeCpuProgram<double>(const Cell&, WeightForm, std::shared_ptr<Helper>);

}  // namespace rnnserve::cpu
