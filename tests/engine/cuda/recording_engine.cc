// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/cuda/recording_engine.h"

#include <utility>

#include "engine/float16.h"
#include "engine/plugin/plugin_program.h"
#include "engine/reference/reference_engine.h"
#include "tests/engine/support/partial_programs.h"

namespace rnnserve::cuda {
namespace {

using selftest::RecordedCall;
using selftest::RecordedSlice;

std::vector<double> ToDoubles(DataType type, const std::byte* from, int64_t count) {
  std::vector<double> values(static_cast<size_t>(count));
  ConvertElements(type, from, DataType::kDouble, reinterpret_cast<std::byte*>(values.data()), values.size());
  return values;
}

template <typename T>
void CopyWeights(const CellWeights<T>& weights, RecordedCall& call) {
  call.w.assign(weights.w.begin(), weights.w.end());
  call.r.assign(weights.r.begin(), weights.r.end());
  call.wb.assign(weights.wb.begin(), weights.wb.end());
  call.rb.assign(weights.rb.begin(), weights.rb.end());
  call.p.assign(weights.p.begin(), weights.p.end());
}

class RecordingProgram final : public WrappedProgram {
 public:
  RecordingProgram(ProgramPtr program, CellPtr cell, std::vector<RecordedCall>* calls, double tolerance)
      : WrappedProgram(std::move(program)), cell_(std::move(cell)), calls_(calls), tolerance_(tolerance) {}

  absl::Status Advance(std::span<const SequenceSlice> slices, Workspace& workspace) const override {
    RecordedCall call;
    call.cell = plugin::ToAbi(spec(), {});
    call.tolerance = tolerance_;
    call.description = "call " + std::to_string(calls_->size());
    if (ComputeType(spec().data_type) == DataType::kDouble) {
      CopyWeights(cell_->weights_f64(), call);
    } else {
      CopyWeights(cell_->weights_f32(), call);
    }
    for (const SequenceSlice& slice : slices) call.slices.push_back(Before(slice));
    const absl::Status ran = target_->Advance(slices, workspace);
    if (!ran.ok()) return ran;
    for (size_t k = 0; k < slices.size(); ++k) After(slices[k], call.slices[k]);
    calls_->push_back(std::move(call));
    return absl::OkStatus();
  }

 private:
  const CellSpec& spec() const { return cell_->spec(); }

  void ExportTo(const State& state, std::vector<double>& h, std::vector<double>& c) const {
    const DataType compute = ComputeType(spec().data_type);
    const bool has_c = spec().kind == CellKind::kLstm;
    std::vector<std::byte> bytes(2 * static_cast<size_t>(spec().hidden_size) * ByteSize(compute));
    std::byte* const c_bytes = bytes.data() + bytes.size() / 2;
    target_->ExportState(state, compute, bytes.data(), has_c ? c_bytes : nullptr);
    h = ToDoubles(compute, bytes.data(), spec().hidden_size);
    c = has_c ? ToDoubles(compute, c_bytes, spec().hidden_size) : std::vector<double>();
  }

  RecordedSlice Before(const SequenceSlice& slice) const {
    RecordedSlice recorded;
    recorded.steps = slice.steps;
    recorded.reverse = slice.x_stride < 0;
    recorded.wants_y = slice.y != nullptr;
    recorded.has_before = slice.before != nullptr;
    const auto row = spec().input_size * static_cast<int64_t>(ByteSize(spec().data_type));
    for (int64_t t = 0; t < slice.steps && row > 0; ++t) {
      const auto* x = reinterpret_cast<const uint8_t*>(slice.x + t * slice.x_stride);
      recorded.x.insert(recorded.x.end(), x, x + row);
    }
    if (slice.before != nullptr) ExportTo(*slice.before, recorded.h, recorded.c);
    return recorded;
  }
  void After(const SequenceSlice& slice, RecordedSlice& recorded) const {
    for (int64_t t = 0; t < slice.steps && slice.y != nullptr; ++t) {
      for (const double value : ToDoubles(spec().data_type, slice.y + t * slice.y_stride, spec().hidden_size)) {
        recorded.y.push_back(value);
      }
    }
    ExportTo(*slice.after, recorded.h_after, recorded.c_after);
  }

  const CellPtr cell_;
  std::vector<RecordedCall>* const calls_;
  const double tolerance_;
};

class RecordingEngine final : public Engine {
 public:
  RecordingEngine(std::vector<RecordedCall>* calls, double tolerance) : calls_(calls), tolerance_(tolerance) {}
  std::string_view name() const override { return "recording"; }
  absl::Status Supports(const CellSpec& cell, const EngineOptions& options) const override {
    return reference_->Supports(cell, options);
  }
  absl::StatusOr<ProgramPtr> Compile(CellPtr cell, const EngineOptions& options) const override {
    absl::StatusOr<ProgramPtr> program = reference_->Compile(cell, options);
    if (!program.ok()) return program;
    return std::make_shared<const RecordingProgram>(*std::move(program), std::move(cell), calls_, tolerance_);
  }

 private:
  const std::unique_ptr<Engine> reference_ = MakeReferenceEngine();
  std::vector<RecordedCall>* const calls_;
  const double tolerance_;
};

}  // namespace

std::unique_ptr<Engine> MakeRecordingEngine(std::vector<RecordedCall>* calls, double tolerance) {
  return std::make_unique<RecordingEngine>(calls, tolerance);
}

}  // namespace rnnserve::cuda
