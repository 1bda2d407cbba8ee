// SPDX-License-Identifier: Apache-2.0
// An engine against the reference on cells and slices, below operators: what the operators' strides and lengths never
// produce is produced here (unaligned elements, odd strides, no state before, no y, state in place).
//
//   INSTANTIATE_TEST_SUITE_P(Cpu, DifferentialSuite, testing::ValuesIn(EngineCases("cpu", &MakeCpuEngine)),
//   EngineCaseName);
#pragma once

#include <algorithm>
#include <cstring>

#include "engine/float16.h"
#include "engine/reference/reference_engine.h"
#include "tests/engine/support/engine_suite.h"
#include "tests/engine/support/rounded_weights.h"

namespace rnnserve {

class DifferentialSuite : public EngineSuite {
 protected:
  int64_t Int(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  double Real(double bound) { return std::uniform_real_distribution<double>(-bound, bound)(random_); }

  Activation RandomActivation() {
    const auto kind = static_cast<ActivationKind>(Int(0, 10));
    switch (kind) {
      case ActivationKind::kAffine:
      case ActivationKind::kScaledTanh:
      case ActivationKind::kHardSigmoid:
        return {kind, Real(1), Real(1)};
      // Where rows are rounded to 8 bits, values would fall on different sides of a step.
      case ActivationKind::kThresholdedRelu:
        return {kind, GetParam().options.weights == WeightType::kBFloat16 ? -50 : Real(1), 0};
      case ActivationKind::kLeakyRelu:
      case ActivationKind::kElu:
        return {kind, Real(1), 0};
      default:
        return {kind, 0, 0};
    }
  }

  // Draws until the engine supports one.
  CellSpec RandomCellSpec() {
    for (int k = 0; k < 5000; ++k) {
      const CellSpec spec = AnyCellSpec();
      if (engine_->Supports(spec, GetParam().options).ok()) return spec;
      ++refused_;
    }
    ADD_FAILURE() << "the engine supports none of these cells";
    return AnyCellSpec();
  }

  CellSpec AnyCellSpec() {
    const int64_t sizes[] = {1, 7, 17, 33, 64};
    CellSpec spec;
    spec.kind = static_cast<CellKind>(Int(0, 2));
    spec.data_type = type();
    spec.hidden_size = sizes[Int(0, 4)];
    spec.input_size = Int(0, 9) == 0 ? 0 : sizes[Int(0, 4)];
    const bool plain = Int(0, 2) == 0;
    const Activation sigmoid = {ActivationKind::kSigmoid}, tanh = {ActivationKind::kTanh};
    const int count = spec.kind == CellKind::kLstm ? 3 : spec.kind == CellKind::kGru ? 2 : 1;
    for (int k = 0; k < count; ++k) {
      const bool gate = k == 0 && spec.kind != CellKind::kRnn;
      spec.activations[static_cast<size_t>(k)] = plain ? (gate ? sigmoid : tanh) : RandomActivation();
    }
    if (Int(0, 2) == 0) spec.clip = 0.1 + std::fabs(Real(1));
    if (spec.kind == CellKind::kLstm) {
      spec.clip_cell_input = std::isfinite(spec.clip) && Int(0, 1) == 0;
      spec.input_forget = Int(0, 3) == 0;
      spec.has_peephole = Int(0, 1) == 0;
    }
    spec.linear_before_reset = spec.kind == CellKind::kGru && Int(0, 1) == 0;
    return spec;
  }

  template <typename T>
  CellPtr RandomCell(const CellSpec& spec) {
    const auto fill = [&](int64_t count, double bound) {
      std::vector<T> values(static_cast<size_t>(count));
      for (T& value : values) value = static_cast<T>(Real(bound));
      return values;
    };
    const int64_t g = GateCount(spec.kind) * spec.hidden_size;
    CellWeights<T> weights;
    weights.w = fill(g * spec.input_size, 1 / std::sqrt(static_cast<double>(spec.input_size + 1)));
    weights.r = fill(g * spec.hidden_size, 0.8 / std::sqrt(static_cast<double>(spec.hidden_size)));
    weights.wb = fill(g, 0.5);
    weights.rb = fill(g, 0.5);
    weights.p = fill(spec.has_peephole ? 3 * spec.hidden_size : 0, 0.7);
    // Functions with steps make much of little: weights are such that nothing is lost.
    RoundWeights(GetParam().options.weights, spec, weights);
    return std::make_shared<const Cell>(spec, std::move(weights));
  }

  // A row's own memory with `lead` bytes before it and a gap after each step.
  struct Row {
    std::vector<std::byte> x, y;
    std::ptrdiff_t lead = 0, x_stride = 0, y_stride = 0;
    int64_t steps = 0;
    bool reverse = false, wants_y = true, has_before = true, in_place = true;
    std::vector<double> h, c;

    SequenceSlice Slice(std::vector<std::byte>& y_buffer) const {
      SequenceSlice slice;
      const int64_t first = reverse ? steps - 1 : 0;
      slice.x = x.data() + lead + first * x_stride;
      slice.x_stride = reverse ? -x_stride : x_stride;
      slice.y = wants_y ? y_buffer.data() + lead + first * y_stride : nullptr;
      slice.y_stride = reverse ? -y_stride : y_stride;
      slice.steps = steps;
      return slice;
    }
  };

  Row RandomRow(const CellSpec& spec) {
    const auto element = static_cast<std::ptrdiff_t>(ByteSize(spec.data_type));
    Row row;
    row.lead = Int(0, 3) == 0 ? Int(1, 7) : 0;
    row.x_stride = spec.input_size * element + Int(0, 1) * Int(0, 5);
    row.y_stride = spec.hidden_size * element + Int(0, 1) * Int(0, 5);
    row.steps = Int(0, 4) == 0 ? 1 : Int(1, 19);
    row.reverse = Int(0, 2) == 0;
    row.wants_y = Int(0, 3) != 0;
    row.has_before = Int(0, 3) != 0;
    row.in_place = Int(0, 1) == 0;
    row.x.resize(static_cast<size_t>(row.lead + row.steps * row.x_stride));
    row.y.resize(static_cast<size_t>(row.lead + row.steps * row.y_stride));
    for (int64_t t = 0; t < row.steps; ++t) {
      for (int64_t i = 0; i < spec.input_size; ++i) {
        const double value = Real(1);
        ConvertElements(DataType::kDouble, reinterpret_cast<const std::byte*>(&value), spec.data_type,
                        row.x.data() + row.lead + t * row.x_stride + i * element, 1);
      }
    }
    for (int64_t u = 0; u < spec.hidden_size; ++u) {
      row.h.push_back(static_cast<double>(static_cast<float>(Real(1))));
      row.c.push_back(static_cast<double>(static_cast<float>(Real(2))));
    }
    return row;
  }

  struct Result {
    std::vector<std::vector<std::byte>> y;     // a buffer a row, gaps still zero
    std::vector<std::vector<std::byte>> h, c;  // in the compute type
    bool before_unchanged = true;
  };

  Result RunRows(const Program& program, const CellSpec& spec, const std::vector<Row>& rows) {
    const DataType compute = ComputeType(spec.data_type);
    const size_t bytes = static_cast<size_t>(spec.hidden_size) * ByteSize(compute);
    const bool lstm = spec.kind == CellKind::kLstm;
    const auto to_compute = [&](const std::vector<double>& values) {
      std::vector<std::byte> out(bytes);
      ConvertElements(DataType::kDouble, reinterpret_cast<const std::byte*>(values.data()), compute, out.data(),
                      values.size());
      return out;
    };
    Result result;
    std::vector<std::unique_ptr<State>> before(rows.size()), after(rows.size());
    std::vector<SequenceSlice> slices;
    for (const Row& row : rows) result.y.push_back(row.y);
    for (size_t k = 0; k < rows.size(); ++k) {
      SequenceSlice slice = rows[k].Slice(result.y[k]);
      before[k] = program.NewState();
      after[k] = program.NewState();
      program.ImportState(compute, to_compute(rows[k].h).data(), lstm ? to_compute(rows[k].c).data() : nullptr,
                          *before[k]);
      if (rows[k].has_before) slice.before = before[k].get();
      slice.after = rows[k].in_place ? before[k].get() : after[k].get();
      slices.push_back(slice);
    }
    const std::unique_ptr<Workspace> workspace = program.NewWorkspace();
    EXPECT_TRUE(program.Advance(slices, *workspace).ok());
    for (size_t k = 0; k < rows.size(); ++k) {
      std::vector<std::byte> h(bytes), c(bytes);
      program.ExportState(*slices[k].after, compute, h.data(), lstm ? c.data() : nullptr);
      result.h.push_back(h);
      result.c.push_back(c);
      if (rows[k].in_place) continue;
      program.ExportState(*before[k], compute, h.data(), lstm ? c.data() : nullptr);
      result.before_unchanged &= h == to_compute(rows[k].h) && (!lstm || c == to_compute(rows[k].c));
    }
    return result;
  }

  // Unbounded functions in gates can explode, and then say nothing about engines.
  static bool Tame(const CellSpec& spec, const Result& result) {
    constexpr double kLargest = 100;
    bool tame = true;
    for (const auto* states : {&result.h, &result.c}) {
      for (const std::vector<std::byte>& state : *states) {
        const DataType compute = ComputeType(spec.data_type);
        std::vector<double> values(state.size() / ByteSize(compute));
        ConvertElements(compute, state.data(), DataType::kDouble, reinterpret_cast<std::byte*>(values.data()),
                        values.size());
        for (double value : values) tame = tame && std::fabs(value) <= kLargest;
      }
    }
    return tame;
  }

  void ExpectBytesNear(DataType data_type, std::span<const std::byte> got, std::span<const std::byte> want,
                       const char* what) {
    const auto values = [&](std::span<const std::byte> bytes) {
      std::vector<double> out(bytes.size() / ByteSize(data_type));
      ConvertElements(data_type, bytes.data(), DataType::kDouble, reinterpret_cast<std::byte*>(out.data()), out.size());
      return out;
    };
    EXPECT_TRUE(ValuesNear(values(got), values(want), GetParam().tolerance, &tally_)) << "in " << what;
  }

  void ExpectRowsNear(const CellSpec& spec, const std::vector<Row>& rows, const Result& got, const Result& want) {
    const size_t h_bytes = static_cast<size_t>(spec.hidden_size) * ByteSize(spec.data_type);
    const DataType compute = ComputeType(spec.data_type);
    for (size_t k = 0; k < rows.size(); ++k) {
      SCOPED_TRACE("row " + std::to_string(k) + " of " + std::to_string(rows.size()));
      ExpectBytesNear(compute, got.h[k], want.h[k], "h");
      ExpectBytesNear(compute, got.c[k], want.c[k], "c");
      std::vector<std::byte> outside = got.y[k];  // what is left after blanking the outputs
      for (int64_t t = 0; rows[k].wants_y && t < rows[k].steps; ++t) {
        const auto at = static_cast<size_t>(rows[k].lead + t * rows[k].y_stride);
        ExpectBytesNear(spec.data_type, std::span(got.y[k]).subspan(at, h_bytes),
                        std::span(want.y[k]).subspan(at, h_bytes), "y");
        std::fill_n(outside.begin() + static_cast<std::ptrdiff_t>(at), h_bytes, std::byte{0});
      }
      EXPECT_EQ(outside, std::vector<std::byte>(outside.size())) << "bytes between outputs were written";
    }
  }
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DifferentialSuite);

TEST_P(DifferentialSuite, SlicesMatchTheReference) {
  const std::unique_ptr<Engine> reference = MakeReferenceEngine();
  for (int k = 0; k < 300; ++k) {
    const CellSpec spec = RandomCellSpec();
    const CellPtr cell = ComputeType(type()) == DataType::kDouble ? RandomCell<double>(spec) : RandomCell<float>(spec);
    SCOPED_TRACE("cell " + std::to_string(k) + " kind " + std::to_string(static_cast<int>(spec.kind)) + " I " +
                 std::to_string(spec.input_size) + " H " + std::to_string(spec.hidden_size) + " functions " +
                 std::to_string(static_cast<int>(spec.activations[0].kind)) + " " +
                 std::to_string(static_cast<int>(spec.activations[1].kind)) + " " +
                 std::to_string(static_cast<int>(spec.activations[2].kind)));
    std::vector<Row> rows;
    for (int64_t n = Int(1, 9); n > 0; --n) rows.push_back(RandomRow(spec));
    const auto program = engine_->Compile(cell, GetParam().options).value();
    const auto oracle = reference->Compile(cell, {}).value();
    const Result want = RunRows(*oracle, spec, rows);
    if (!Tame(spec, want)) continue;
    const Result got = RunRows(*program, spec, rows);
    ++operators_;
    EXPECT_TRUE(got.before_unchanged);
    ExpectRowsNear(spec, rows, got, want);
  }
}

TEST_P(DifferentialSuite, StatesComeBackExactly) {
  for (int k = 0; k < 20; ++k) {
    const CellSpec spec = RandomCellSpec();
    const CellPtr cell = ComputeType(type()) == DataType::kDouble ? RandomCell<double>(spec) : RandomCell<float>(spec);
    const auto program = engine_->Compile(cell, GetParam().options).value();
    ++operators_;
    const DataType compute = ComputeType(spec.data_type);
    const bool lstm = spec.kind == CellKind::kLstm;
    const Row row = RandomRow(spec);
    const size_t bytes = row.h.size() * ByteSize(compute);
    std::vector<std::byte> h(bytes + 1), c(bytes + 1), h_back(bytes + 1), c_back(bytes + 1);  // at odd addresses
    ConvertElements(DataType::kDouble, reinterpret_cast<const std::byte*>(row.h.data()), compute, h.data() + 1,
                    row.h.size());
    ConvertElements(DataType::kDouble, reinterpret_cast<const std::byte*>(row.c.data()), compute, c.data() + 1,
                    row.c.size());
    const std::unique_ptr<State> state = program->NewState();
    program->ImportState(compute, h.data() + 1, lstm ? c.data() + 1 : nullptr, *state);
    program->ExportState(*state, compute, h_back.data() + 1, lstm ? c_back.data() + 1 : nullptr);
    EXPECT_EQ(h_back, h);
    if (lstm) {
      EXPECT_EQ(c_back, c);
    }
    program->ImportState(compute, nullptr, nullptr, *state);
    program->ExportState(*state, compute, h_back.data() + 1, nullptr);
    EXPECT_EQ(h_back, std::vector<std::byte>(bytes + 1)) << "null pointers mean zeros";
  }
}

}  // namespace rnnserve
