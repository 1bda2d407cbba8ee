// SPDX-License-Identifier: Apache-2.0
#include "engine/reference/reference_engine.h"

#include <utility>
#include <vector>

#include "engine/float16.h"
#include "engine/reference/step.h"

namespace rnnserve {
namespace {

// Doubles that hold values of the compute type.
struct ReferenceState : State {
  explicit ReferenceState(const CellSpec& spec)
      : h(static_cast<size_t>(spec.hidden_size)), c(spec.kind == CellKind::kLstm ? h.size() : 0) {}
  std::vector<double> h, c;
};

void Read(DataType type, const std::byte* source, std::vector<double>& target) {
  ConvertElements(type, source, DataType::kDouble, reinterpret_cast<std::byte*>(target.data()), target.size());
}

void Write(const std::vector<double>& source, DataType type, std::byte* target) {
  ConvertElements(DataType::kDouble, reinterpret_cast<const std::byte*>(source.data()), type, target, source.size());
}

void RoundToComputeType(DataType data_type, std::vector<double>& values) {
  if (ComputeType(data_type) == DataType::kDouble) return;
  for (double& value : values) value = static_cast<double>(static_cast<float>(value));
}

class ReferenceProgram : public Program {
 public:
  explicit ReferenceProgram(CellPtr cell) : cell_(std::move(cell)) {}

  std::unique_ptr<State> NewState() const override { return std::make_unique<ReferenceState>(cell_->spec()); }

  void ImportState(DataType type, const std::byte* h, const std::byte* c, State& state) const override {
    auto& target = static_cast<ReferenceState&>(state);
    for (auto [source, values] : {std::pair(h, &target.h), std::pair(c, &target.c)}) {
      if (source == nullptr) {
        values->assign(values->size(), 0);
      } else {
        Read(type, source, *values);
        RoundToComputeType(cell_->spec().data_type, *values);
      }
    }
  }

  void ExportState(const State& state, DataType type, std::byte* h, std::byte* c) const override {
    const auto& source = static_cast<const ReferenceState&>(state);
    if (h != nullptr) Write(source.h, type, h);
    if (c != nullptr) Write(source.c, type, c);
  }

  std::unique_ptr<Workspace> NewWorkspace() const override { return std::make_unique<Workspace>(); }

  absl::Status Advance(std::span<const SequenceSlice> slices, Workspace&) const override {
    for (const SequenceSlice& slice : slices) Run(slice);
    return absl::OkStatus();
  }

  int64_t packed_bytes() const override { return 0; }

 private:
  void Run(const SequenceSlice& slice) const {
    const CellSpec& spec = cell_->spec();
    ReferenceState state(spec);
    if (slice.before != nullptr) state = static_cast<const ReferenceState&>(*slice.before);
    std::vector<double> x(static_cast<size_t>(spec.input_size));
    for (int64_t t = 0; t < slice.steps; ++t) {
      Read(spec.data_type, slice.x + t * slice.x_stride, x);
      Step(*cell_, x, state.h, state.c);
      RoundToComputeType(spec.data_type, state.h);
      RoundToComputeType(spec.data_type, state.c);
      if (slice.y != nullptr) Write(state.h, spec.data_type, slice.y + t * slice.y_stride);
    }
    static_cast<ReferenceState&>(*slice.after) = std::move(state);
  }

  CellPtr cell_;
};

class ReferenceEngine : public Engine {
 public:
  std::string_view name() const override { return "reference"; }
  absl::Status Supports(const CellSpec&, const EngineOptions& options) const override {
    return CheckWeightsAsGiven(options);
  }
  absl::StatusOr<ProgramPtr> Compile(CellPtr cell, const EngineOptions& options) const override {
    if (absl::Status can = CheckWeightsAsGiven(options); !can.ok()) return can;
    return std::make_shared<const ReferenceProgram>(std::move(cell));
  }
};

}  // namespace

std::unique_ptr<Engine> MakeReferenceEngine() { return std::make_unique<ReferenceEngine>(); }

}  // namespace rnnserve
