// SPDX-License-Identifier: Apache-2.0
// The bits of a sequence are the same alone, in any batch and in any cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

#include "engine/cpu/cpu_engine.h"
#include "tests/engine/cpu/random_sequences.h"

namespace rnnserve::cpu {
namespace {

struct Case {
  std::string name;
  CellSpec spec;
  WeightType weights = WeightType::kAsGiven;
};

std::vector<Case> Cases() {
  CellSpec gru = DefaultSpec(CellKind::kGru, DataType::kFloat, 9, 33);
  CellSpec gru_before = gru;
  gru_before.linear_before_reset = true;
  CellSpec peephole = DefaultSpec(CellKind::kLstm, DataType::kFloat, 17, 20);
  peephole.has_peephole = true;
  peephole.clip = 0.5;
  return {
      {"lstm_float32", DefaultSpec(CellKind::kLstm, DataType::kFloat, 17, 33)},
      {"lstm_float64", DefaultSpec(CellKind::kLstm, DataType::kDouble, 5, 7)},
      {"lstm_float16", DefaultSpec(CellKind::kLstm, DataType::kFloat16, 5, 40)},
      {"lstm_peephole_clip", peephole},
      {"gru_float32", gru},
      {"gru_linear_before_reset", gru_before},
      {"rnn_bfloat16", DefaultSpec(CellKind::kRnn, DataType::kBFloat16, 3, 65)},
      {"lstm_weights_float16", DefaultSpec(CellKind::kLstm, DataType::kFloat, 17, 33), WeightType::kFloat16},
      {"lstm_weights_bfloat16", DefaultSpec(CellKind::kLstm, DataType::kFloat, 17, 133), WeightType::kBFloat16},
      // Panels go back and forth.
      {"lstm_large_weights_bfloat16", DefaultSpec(CellKind::kLstm, DataType::kFloat, 17, 370), WeightType::kBFloat16},
      {"lstm_weights_int8", DefaultSpec(CellKind::kLstm, DataType::kFloat, 17, 133), WeightType::kInt8},
      {"gru_weights_bfloat16", gru, WeightType::kBFloat16},
      {"gru_weights_int8", gru, WeightType::kInt8},
      {"gru_linear_before_reset_weights_int8", gru_before, WeightType::kInt8},
      {"rnn_float16_weights_int8", DefaultSpec(CellKind::kRnn, DataType::kFloat16, 3, 65), WeightType::kInt8},
  };
}

class DeterminismTest : public testing::TestWithParam<Case> {
 protected:
  DeterminismTest() : spec_(GetParam().spec), cell_(RandomCell(spec_, 3)) {
    const EngineOptions options = {
        .allow_reduced_precision = true, .deterministic = true, .weights = GetParam().weights};
    program_ = MakeCpuEngine()->Compile(cell_, options).value();
    workspace_ = program_->NewWorkspace();
  }

  Sequences MakeSequences(size_t count) const {
    Sequences sequences(*program_, spec_);
    for (size_t k = 0; k < count; ++k) {
      sequences.Add(static_cast<int64_t>(1 + k * 7 % 23), static_cast<uint32_t>(100 + k));
    }
    return sequences;
  }

  void Run(const std::vector<SequenceSlice>& slices) { ASSERT_TRUE(program_->Advance(slices, *workspace_).ok()); }

  CellSpec spec_;
  CellPtr cell_;
  ProgramPtr program_;
  std::unique_ptr<Workspace> workspace_;
};

TEST_P(DeterminismTest, AloneAsInABatch) {
  Sequences alone = MakeSequences(130);
  for (size_t k = 0; k < alone.size(); ++k) Run({alone.Slice(k, 0, alone.steps(k))});
  for (const size_t rows : {1, 2, 5, 6, 7, 15, 16, 17, 40, 63, 64, 65, 128, 129, 130}) {
    Sequences batch = MakeSequences(rows);
    Run(batch.All());
    for (size_t k = 0; k < rows; ++k) ASSERT_EQ(batch.Results(k), alone.Results(k)) << rows << " rows, row " << k;
  }
}

TEST_P(DeterminismTest, CutAsWhole) {
  Sequences whole = MakeSequences(23);
  Run(whole.All());
  for (const int64_t cut : {1, 2, 5, 16}) {
    Sequences pieces = MakeSequences(23);
    for (int64_t first = 0; first < 23; first += cut) {
      std::vector<SequenceSlice> slices;
      for (size_t k = 0; k < pieces.size(); ++k) {
        const int64_t count = std::min(cut, pieces.steps(k) - first);
        if (count > 0) slices.push_back(pieces.Slice(k, first, count));
      }
      Run(slices);
    }
    for (size_t k = 0; k < pieces.size(); ++k) {
      ASSERT_EQ(pieces.Results(k), whole.Results(k)) << "cut every " << cut << ", row " << k;
    }
  }
}

TEST_P(DeterminismTest, ManyThreadsShareAProgram) {
  Sequences expected = MakeSequences(30);
  Run(expected.All());
  std::vector<Sequences> results;
  for (size_t k = 0; k < 4; ++k) results.push_back(MakeSequences(30));
  std::vector<std::thread> threads;
  for (Sequences& sequences : results) {
    threads.emplace_back([this, &sequences] {
      const auto workspace = program_->NewWorkspace();
      EXPECT_TRUE(program_->Advance(sequences.All(), *workspace).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Sequences& sequences : results) {
    for (size_t k = 0; k < sequences.size(); ++k) ASSERT_EQ(sequences.Results(k), expected.Results(k));
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, DeterminismTest, testing::ValuesIn(Cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace rnnserve::cpu
