// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/support/run_operator.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace rnnserve {
namespace {

// Keeps state only through its exported form, as a session store would.
std::unique_ptr<State> Reimported(const Program& program, const CellSpec& spec, const State& state) {
  const DataType type = ComputeType(spec.data_type);
  const size_t bytes = static_cast<size_t>(spec.hidden_size) * ByteSize(type);
  std::vector<std::byte> h(bytes), c(bytes);
  const bool lstm = spec.kind == CellKind::kLstm;
  program.ExportState(state, type, h.data(), lstm ? c.data() : nullptr);
  std::unique_ptr<State> result = program.NewState();
  program.ImportState(type, h.data(), lstm ? c.data() : nullptr, *result);
  return result;
}

absl::Status RunDirection(const Program& program, const CellSpec& spec, std::span<const Sequence> sequences,
                          const RunSettings& settings) {
  const std::unique_ptr<Workspace> workspace = program.NewWorkspace();
  std::vector<std::unique_ptr<State>> states;
  for (const Sequence& sequence : sequences) {
    states.push_back(program.NewState());
    if (sequence.initial_h != nullptr || sequence.initial_c != nullptr) {
      program.ImportState(spec.data_type, sequence.initial_h, sequence.initial_c, *states.back());
    }
  }
  const int64_t slice_steps =
      settings.steps_per_slice > 0 ? settings.steps_per_slice : std::numeric_limits<int64_t>::max();
  std::vector<int64_t> done(sequences.size(), 0);
  for (;;) {
    std::vector<SequenceSlice> slices;
    for (size_t k = 0; k < sequences.size(); ++k) {
      const Sequence& sequence = sequences[k];
      if (done[k] == sequence.length) continue;
      if (settings.carry_exported) states[k] = Reimported(program, spec, *states[k]);
      SequenceSlice slice;
      slice.x = sequence.x == nullptr ? nullptr : sequence.x + done[k] * sequence.x_stride;
      slice.x_stride = sequence.x_stride;
      slice.y = sequence.y == nullptr ? nullptr : sequence.y + done[k] * sequence.y_stride;
      slice.y_stride = sequence.y_stride;
      slice.steps = std::min(slice_steps, sequence.length - done[k]);
      slice.before = slice.after = states[k].get();
      done[k] += slice.steps;
      slices.push_back(slice);
      if (settings.one_sequence_a_call) break;
    }
    if (slices.empty()) break;
    if (absl::Status status = program.Advance(slices, *workspace); !status.ok()) return status;
  }
  for (size_t k = 0; k < sequences.size(); ++k) {
    program.ExportState(*states[k], spec.data_type, sequences[k].final_h, sequences[k].final_c);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OutputMap> RunOperator(const Engine& engine, const OperatorDef& op, std::span<const OwnedTensor> inputs,
                                      std::span<const std::string> wanted, const RunSettings& settings) {
  const std::vector<NamedTensor> views = Views(inputs);
  const absl::StatusOr<OpSpec> spec = ResolveOperator(op, views);
  if (!spec.ok()) return spec.status();
  const absl::StatusOr<RunPlan> plan = PlanRun(*spec, views, wanted, settings.options);
  if (!plan.ok()) return plan.status();
  const absl::StatusOr<std::vector<CellPtr>> cells = MakeCells(*spec, views, settings.options);
  if (!cells.ok()) return cells.status();

  OutputMap outputs;
  std::vector<std::byte*> buffers;
  for (const OutputPlan& output : plan->outputs) {
    OwnedTensor tensor{output.name, output.type, output.shape,
                       std::vector<std::byte>(static_cast<size_t>(output.bytes))};
    const auto at = outputs.emplace(output.name, std::move(tensor)).first;
    buffers.push_back(at->second.bytes.data());
  }
  const LayerSequences sequences = MakeSequences(*spec, *plan, buffers);
  for (size_t d = 0; d < cells->size(); ++d) {
    const CellPtr& cell = (*cells)[d];
    if (absl::Status can = engine.Supports(cell->spec(), settings.engine_options); !can.ok()) return can;
    std::vector<Sequence> own;
    for (const Sequence& sequence : sequences) {
      if (sequence.direction == static_cast<int64_t>(d)) own.push_back(sequence);
    }
    if (own.empty()) continue;
    const absl::StatusOr<ProgramPtr> program = engine.Compile(cell, settings.engine_options);
    if (!program.ok()) return program.status();
    if (absl::Status status = RunDirection(**program, cell->spec(), own, settings); !status.ok()) return status;
  }
  return outputs;
}

absl::Status SupportsOperator(const Engine& engine, const OperatorDef& op, std::span<const OwnedTensor> inputs,
                              const EngineOptions& options) {
  const std::vector<NamedTensor> views = Views(inputs);
  const absl::StatusOr<OpSpec> spec = ResolveOperator(op, views);
  if (!spec.ok()) return spec.status();
  const absl::StatusOr<std::vector<CellPtr>> cells = MakeCells(*spec, views, {});
  if (!cells.ok()) return cells.status();
  for (const CellPtr& cell : *cells) {
    if (absl::Status can = engine.Supports(cell->spec(), options); !can.ok()) return can;
  }
  return absl::OkStatus();
}

}  // namespace rnnserve
