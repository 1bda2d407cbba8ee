// SPDX-License-Identifier: Apache-2.0
#include "engine/onednn/onednn_program.h"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "engine/float16.h"
#include "engine/onednn/call_plan.h"
#include "engine/onednn/one_thread_team.h"
#include "engine/onednn/packed_weights.h"

namespace rnnserve::onednn {
namespace {

const std::byte* Bytes(const std::vector<float>& values) { return reinterpret_cast<const std::byte*>(values.data()); }
std::byte* Bytes(std::vector<float>& values) { return reinterpret_cast<std::byte*>(values.data()); }

// oneDNN throws; nothing of it leaves this folder.
template <typename Work>
absl::Status Guarded(const Work& work) {
  try {
    work();
    return absl::OkStatus();
  } catch (const dnnl::error& error) {
    const auto message = absl::StrCat("oneDNN: ", error.message);
    if (error.status == dnnl_out_of_memory) return absl::ResourceExhaustedError(message);
    if (error.status == dnnl_unimplemented) return absl::UnimplementedError(message);
    return absl::InternalError(message);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("not enough memory for the buffers of a oneDNN call");
  }
}

// Consecutive rows of a sorted batch that run together, on one half of the state buffers.
struct Group {
  std::span<const SequenceSlice* const> rows;
  std::byte *h, *h_next, *c, *c_next;
};

class OneDnnProgram : public Program {
 public:
  explicit OneDnnProgram(CellPtr cell)
      : spec_(cell->spec()),
        x_bytes_(static_cast<size_t>(spec_.input_size) * ByteSize(spec_.data_type)),
        h_bytes_(static_cast<size_t>(spec_.hidden_size) * ByteSize(spec_.data_type)),
        c_bytes_(spec_.kind == CellKind::kLstm ? static_cast<size_t>(spec_.hidden_size) * sizeof(float) : 0),
        weights_(engine_, std::move(cell)) {}

  // Makes the first primitive: what oneDNN cannot do shows here.
  void Warm() const { Find(1, 1); }

  std::unique_ptr<State> NewState() const override;
  void ImportState(DataType type, const std::byte* h, const std::byte* c, State& state) const override;
  void ExportState(const State& state, DataType type, std::byte* h, std::byte* c) const override;
  std::unique_ptr<Workspace> NewWorkspace() const override { return std::make_unique<OneDnnWorkspace>(engine_); }
  absl::Status Advance(std::span<const SequenceSlice> slices, Workspace& workspace) const override;
  int64_t packed_bytes() const override { return weights_.most_bytes(); }

 private:
  struct Shared {
    Recurrence recurrence;
    PackedWeights::Pair weights;
  };

  std::shared_ptr<const Shared> Find(size_t rows, int64_t steps) const;
  BoundCall& Bound(size_t rows, int64_t steps, OneDnnWorkspace& scratch) const;

  void LoadState(const SequenceSlice& slice, std::byte* h, std::byte* c) const;
  void StoreState(const std::byte* h, const std::byte* c, const SequenceSlice& slice) const;
  void Run(std::span<const SequenceSlice> slices, OneDnnWorkspace& scratch) const;
  void RunGroup(Group group, OneDnnWorkspace& scratch) const;
  void RunSteps(const Group& group, size_t active, int64_t first_step, int64_t steps, OneDnnWorkspace& scratch) const;
  void GatherInputs(std::span<const SequenceSlice* const> rows, size_t call_rows, int64_t first_step, int64_t steps,
                    std::byte* x) const;
  void ScatterOutputs(std::span<const SequenceSlice* const> rows, size_t call_rows, int64_t first_step, int64_t steps,
                      const std::byte* y) const;

  const CellSpec spec_;
  const size_t x_bytes_, h_bytes_, c_bytes_;
  const dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  mutable PackedWeights weights_;
  mutable Mutex mutex_;
  mutable std::map<std::pair<size_t, int64_t>, std::shared_ptr<const Shared>> shared_ ABSL_GUARDED_BY(mutex_);
};

std::unique_ptr<State> OneDnnProgram::NewState() const {
  auto state = std::make_unique<OneDnnState>();
  state->h.resize(static_cast<size_t>(spec_.hidden_size));
  if (c_bytes_ > 0) state->c.resize(state->h.size());
  return state;
}

void OneDnnProgram::ImportState(DataType type, const std::byte* h, const std::byte* c, State& state) const {
  auto& own = static_cast<OneDnnState&>(state);
  for (const auto& [source, target] : {std::pair(h, &own.h), std::pair(c, &own.c)}) {
    if (source == nullptr) {
      std::fill(target->begin(), target->end(), 0.0f);
    } else {
      ConvertElements(type, source, DataType::kFloat, Bytes(*target), target->size());
    }
  }
}

void OneDnnProgram::ExportState(const State& state, DataType type, std::byte* h, std::byte* c) const {
  const auto& own = static_cast<const OneDnnState&>(state);
  if (h != nullptr) ConvertElements(DataType::kFloat, Bytes(own.h), type, h, own.h.size());
  if (c != nullptr) ConvertElements(DataType::kFloat, Bytes(own.c), type, c, own.c.size());
}

absl::Status OneDnnProgram::Advance(std::span<const SequenceSlice> slices, Workspace& workspace) const {
  return Guarded([&] { Run(slices, static_cast<OneDnnWorkspace&>(workspace)); });
}

// Two threads may make the same primitive at once; the first to be done is kept.
std::shared_ptr<const OneDnnProgram::Shared> OneDnnProgram::Find(size_t rows, int64_t steps) const {
  const std::pair key(rows, steps);
  {
    const MutexLock lock(mutex_);
    if (const auto found = shared_.find(key); found != shared_.end()) return found->second;
  }
  const OneThreadTeam team;
  auto made = std::make_shared<Shared>();
  for (const WeightLayout layout : {WeightLayout::kFastest, WeightLayout::kPlain}) {
    made->recurrence = MakeRecurrence(engine_, spec_, static_cast<int64_t>(rows), steps, layout);
    if (const auto weights = weights_.Find(made->recurrence, layout); weights.has_value()) {
      made->weights = *weights;
      break;
    }
  }
  const MutexLock lock(mutex_);
  return shared_.emplace(key, std::move(made)).first->second;
}

BoundCall& OneDnnProgram::Bound(size_t rows, int64_t steps, OneDnnWorkspace& scratch) const {
  const std::pair key(rows, steps);
  if (const auto found = scratch.calls.find(key); found != scratch.calls.end()) return found->second;
  const std::shared_ptr<const Shared> shared = Find(rows, steps);
  const Recurrence& recurrence = shared->recurrence;
  const auto empty = [this](const Memory::desc& desc) { return Memory(desc, engine_, nullptr); };
  BoundCall call;
  call.primitive = recurrence.primitive;
  call.scratchpad_bytes = recurrence.scratchpad.get_size();
  call.arguments = {{DNNL_ARG_SRC_LAYER, empty(recurrence.x)},
                    {DNNL_ARG_DST_LAYER, empty(recurrence.y)},
                    {DNNL_ARG_SRC_ITER, empty(recurrence.h)},
                    {DNNL_ARG_DST_ITER, empty(recurrence.h)},
                    {DNNL_ARG_WEIGHTS_LAYER, shared->weights.w},
                    {DNNL_ARG_WEIGHTS_ITER, shared->weights.r},
                    {DNNL_ARG_BIAS, weights_.bias()},
                    {DNNL_ARG_SCRATCHPAD, empty(recurrence.scratchpad)}};
  if (c_bytes_ > 0) {
    call.arguments.emplace(DNNL_ARG_SRC_ITER_C, empty(recurrence.c));
    call.arguments.emplace(DNNL_ARG_DST_ITER_C, empty(recurrence.c));
  }
  if (spec_.has_peephole) call.arguments.emplace(DNNL_ARG_WEIGHTS_PEEPHOLE, weights_.peephole());
  return scratch.calls.emplace(key, std::move(call)).first->second;
}

void OneDnnProgram::LoadState(const SequenceSlice& slice, std::byte* h, std::byte* c) const {
  const auto units = static_cast<size_t>(spec_.hidden_size);
  if (slice.before == nullptr) {
    std::fill_n(h, h_bytes_, std::byte{0});
    std::fill_n(c, c_bytes_, std::byte{0});
    return;
  }
  const auto& state = static_cast<const OneDnnState&>(*slice.before);
  ConvertElements(DataType::kFloat, Bytes(state.h), spec_.data_type, h, units);
  std::copy_n(Bytes(state.c), c_bytes_, c);
}

void OneDnnProgram::StoreState(const std::byte* h, const std::byte* c, const SequenceSlice& slice) const {
  auto& state = static_cast<OneDnnState&>(*slice.after);
  ConvertElements(spec_.data_type, h, DataType::kFloat, Bytes(state.h), state.h.size());
  std::copy_n(c, c_bytes_, Bytes(state.c));
}

// All states are read before any is written: a slice's `after` may be the `before` that another one forks from.
// Each group has room for the padding rows of its calls behind its own.
void OneDnnProgram::Run(std::span<const SequenceSlice> slices, OneDnnWorkspace& scratch) const {
  auto& rows = scratch.rows;
  rows.clear();
  for (const SequenceSlice& slice : slices) rows.push_back(&slice);
  const auto longer = [](const SequenceSlice* a, const SequenceSlice* b) { return a->steps > b->steps; };
  std::stable_sort(rows.begin(), rows.end(), longer);

  const size_t groups = (rows.size() + kGroupRows - 1) / kGroupRows;
  const size_t room = rows.size() + groups * kMostPadding;
  for (Scratch& half : scratch.h) half.Grow(room * h_bytes_);
  for (Scratch& half : scratch.c) half.Grow(room * c_bytes_);
  const auto at = [&](size_t row) { return row + row / kGroupRows * kMostPadding; };
  for (size_t row = 0; row < rows.size(); ++row) {
    LoadState(*rows[row], scratch.h[0].data() + at(row) * h_bytes_, scratch.c[0].data() + at(row) * c_bytes_);
  }
  const OneThreadTeam team;
  for (size_t first = 0; first < rows.size(); first += kGroupRows) {
    RunGroup({std::span(rows).subspan(first, std::min(kGroupRows, rows.size() - first)),
              scratch.h[0].data() + at(first) * h_bytes_, scratch.h[1].data() + at(first) * h_bytes_,
              scratch.c[0].data() + at(first) * c_bytes_, scratch.c[1].data() + at(first) * c_bytes_},
             scratch);
  }
}

// Rows leave at their own last step: between two such steps the number of active rows stays the same.
void OneDnnProgram::RunGroup(Group group, OneDnnWorkspace& scratch) const {
  size_t active = group.rows.size();
  int64_t step = 0;
  while (active > 0) {
    const int64_t steps = StepsOfCall(spec_, active, group.rows[active - 1]->steps - step);
    RunSteps(group, active, step, steps, scratch);
    std::swap(group.h, group.h_next);
    std::swap(group.c, group.c_next);
    for (step += steps; active > 0 && group.rows[active - 1]->steps == step; --active) {
      const size_t row = active - 1;
      StoreState(group.h + row * h_bytes_, group.c + row * c_bytes_, *group.rows[row]);
    }
  }
}

void OneDnnProgram::RunSteps(const Group& group, size_t active, int64_t first_step, int64_t steps,
                             OneDnnWorkspace& scratch) const {
  const auto rows = group.rows.first(active);
  const size_t call_rows = RowsOfCall(active);
  BoundCall& call = Bound(call_rows, steps, scratch);
  scratch.x.Grow(static_cast<size_t>(steps) * call_rows * x_bytes_);
  scratch.y.Grow(static_cast<size_t>(steps) * call_rows * h_bytes_);
  scratch.scratchpad.Grow(call.scratchpad_bytes);
  const auto give = [&call](int argument, std::byte* data) { call.arguments.at(argument).set_data_handle(data); };
  give(DNNL_ARG_SRC_LAYER, scratch.x.data());
  give(DNNL_ARG_DST_LAYER, scratch.y.data());
  give(DNNL_ARG_SCRATCHPAD, scratch.scratchpad.data());
  give(DNNL_ARG_SRC_ITER, group.h);
  give(DNNL_ARG_DST_ITER, group.h_next);
  if (c_bytes_ > 0) {
    give(DNNL_ARG_SRC_ITER_C, group.c);
    give(DNNL_ARG_DST_ITER_C, group.c_next);
  }
  GatherInputs(rows, call_rows, first_step, steps, scratch.x.data());
  call.primitive.execute(scratch.stream, call.arguments);
  scratch.stream.wait();
  ScatterOutputs(rows, call_rows, first_step, steps, scratch.y.data());
}

void OneDnnProgram::GatherInputs(std::span<const SequenceSlice* const> rows, size_t call_rows, int64_t first_step,
                                 int64_t steps, std::byte* x) const {
  for (int64_t step = first_step; step < first_step + steps; ++step) {
    std::byte* target = x;
    for (const SequenceSlice* row : rows) {
      target = std::copy_n(row->x + step * row->x_stride, x_bytes_, target);
    }
    std::fill(target, x + call_rows * x_bytes_, std::byte{0});
    x += call_rows * x_bytes_;
  }
}

void OneDnnProgram::ScatterOutputs(std::span<const SequenceSlice* const> rows, size_t call_rows, int64_t first_step,
                                   int64_t steps, const std::byte* y) const {
  for (int64_t step = first_step; step < first_step + steps; ++step) {
    const std::byte* source = y;
    for (const SequenceSlice* row : rows) {
      if (row->y != nullptr) std::copy_n(source, h_bytes_, row->y + step * row->y_stride);
      source += h_bytes_;
    }
    y += call_rows * h_bytes_;
  }
}

}  // namespace

absl::StatusOr<ProgramPtr> MakeOneDnnProgram(CellPtr cell) {
  std::shared_ptr<OneDnnProgram> program;
  const absl::Status made = Guarded([&] {
    const OneThreadTeam team;
    program = std::make_shared<OneDnnProgram>(std::move(cell));
    program->Warm();
  });
  if (!made.ok()) return made;
  return program;
}

}  // namespace rnnserve::onednn
