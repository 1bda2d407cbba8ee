// SPDX-License-Identifier: Apache-2.0
// What every engine must hold (recurrent-operators.md, section 16), over engine, data type and tolerance. An engine
// inherits it all by one line in its own test program:
//
//   INSTANTIATE_TEST_SUITE_P(Cpu, EngineSuite, testing::ValuesIn(EngineCases("cpu", &MakeCpuEngine)), EngineCaseName);
//
// Include this header, and differential_suite.h next to it, in one source of a program. Operators are drawn until the
// engine supports one, so that an engine with few cells is asked as often as one with all.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/support/engine_fixture.h"
#include "tests/engine/support/rearrange.h"

namespace rnnserve {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EngineSuite);

TEST_P(EngineSuite, MatchesTheNaiveOracle) {
  for (int k = 0; k < 150; ++k) ExpectMatchesOracle(Draw());
}

TEST_P(EngineSuite, MatchesTheNaiveOracleWithDefaultFunctions) {
  for (int k = 0; k < 60; ++k) ExpectMatchesOracle(Draw({.default_functions = true}));
}

TEST_P(EngineSuite, OptionsMatchTheNaiveOracle) {
  for (int k = 0; k < 60; ++k) {
    RunSettings settings;
    settings.options.clip_cell_input = k % 2 == 0;
    settings.options.empty_row_state = k % 3 == 0 ? EmptyRowState::kZeros : EmptyRowState::kInitial;
    ExpectMatchesOracle(Draw({.kind = CellKind::kLstm, .lengths = true}), settings);
  }
}

TEST_P(EngineSuite, Layout1IsLayout0Transposed) {
  for (int k = 0; k < 25; ++k) {
    Pinned pinned;
    pinned.openvino = false;
    pinned.layout = 1;
    RandomOperator op = Draw(pinned);
    SCOPED_TRACE(op.Describe());
    const OutputMap layout1 = Run(op);
    if (layout1.empty()) continue;
    op.op.attributes["layout"] = int64_t{0};
    for (OwnedTensor& input : op.inputs) {
      if (input.name == "X" || input.name.starts_with("initial")) input = Transposed(input, {1, 0, 2});
    }
    OutputMap layout0 = Run(op);
    layout0["Y"] = Transposed(layout0.at("Y"), {2, 0, 1, 3});
    for (const char* name : {"Y_h", "Y_c"}) {
      if (layout0.contains(name)) layout0[name] = Transposed(layout0[name], {1, 0, 2});
    }
    ExpectSame(layout1, layout0);
  }
}

TEST_P(EngineSuite, BidirectionalIsForwardAndReverse) {
  for (int k = 0; k < 25; ++k) {
    Pinned pinned = engine_suite::OnnxLayout0();
    pinned.direction = Direction::kBidirectional;
    pinned.default_functions = true;
    const RandomOperator both = Draw(pinned);
    SCOPED_TRACE(both.Describe());
    const OutputMap outputs = Run(both);
    if (outputs.empty()) continue;
    for (int64_t d = 0; d < 2; ++d) {
      RandomOperator one = both;
      one.op.attributes["direction"] = std::string(d == 0 ? "forward" : "reverse");
      for (OwnedTensor& input : one.inputs) {
        if (input.name != "X" && input.name != "sequence_lens") input = engine_suite::SelectDirection(input, 0, d);
      }
      OutputMap want;
      for (const auto& [name, tensor] : outputs) {
        want[name] = engine_suite::SelectDirection(tensor, name == "Y" ? 1 : 0, d);
      }
      ExpectSame(Run(one), want);
    }
  }
}

TEST_P(EngineSuite, ReverseIsForwardOnRowsTurnedAround) {
  for (int k = 0; k < 25; ++k) {
    Pinned pinned = engine_suite::OnnxLayout0();
    pinned.direction = Direction::kReverse;
    pinned.lengths = true;
    const RandomOperator reverse = Draw(pinned);
    SCOPED_TRACE(reverse.Describe());
    const OutputMap outputs = Run(reverse);
    if (outputs.empty()) continue;
    RandomOperator forward = reverse;
    forward.op.attributes["direction"] = std::string("forward");
    OwnedTensor* x = FindTensor(forward.inputs, "X");
    *x = engine_suite::ReversedWithinLength(*x, 1, reverse.lengths);
    OutputMap want = Run(forward);
    want["Y"] = engine_suite::ReversedWithinLength(want.at("Y"), 2, reverse.lengths);
    ExpectSame(outputs, want);
  }
}

TEST_P(EngineSuite, CutSequencesEqualWholeOnes) {
  for (int k = 0; k < 40; ++k) {
    const RandomOperator op = Draw();
    SCOPED_TRACE(op.Describe());
    const OutputMap whole = Run(op);
    if (whole.empty()) continue;
    RunSettings settings;
    settings.steps_per_slice = 1 + k % 5;
    settings.carry_exported = k % 2 == 0;
    ExpectSame(Run(op, settings), whole);
  }
}

TEST_P(EngineSuite, DeterministicRunsGiveTheSameBits) {
  EngineOptions options = GetParam().options;
  options.deterministic = true;
  if (const absl::Status can = SupportsDefaultCell(options); !can.ok()) {
    EXPECT_NE(can.message().find("deterministic"), absl::string_view::npos) << can;
    GTEST_SKIP() << can;
  }
  for (int k = 0; k < 40; ++k) {
    const RandomOperator op = Draw();
    SCOPED_TRACE(op.Describe());
    RunSettings settings;
    settings.engine_options = options;
    const OutputMap whole = Run(op, settings);
    settings.steps_per_slice = 1 + k % 5;
    settings.carry_exported = true;
    settings.one_sequence_a_call = k % 2 == 0;
    const OutputMap cut = Run(op, settings);
    for (const auto& [name, tensor] : whole) {
      tally_.values += static_cast<int64_t>(tensor.bytes.size() / ByteSize(tensor.type));
      EXPECT_TRUE(TensorsIdentical(cut.at(name), tensor));
    }
  }
}

TEST_P(EngineSuite, RowsDoNotDependOnEachOther) {
  for (int k = 0; k < 20; ++k) {
    Pinned pinned = engine_suite::OnnxLayout0();
    pinned.rows = 7;
    const RandomOperator op = Draw(pinned);
    SCOPED_TRACE(op.Describe());
    const OutputMap outputs = Run(op);
    for (int64_t row = 0; row < op.rows && !outputs.empty(); row += 2) {
      RandomOperator alone = op;
      for (OwnedTensor& input : alone.inputs) {
        if (IsWeightName(input.name)) continue;
        input = engine_suite::SelectRow(input, engine_suite::RowAxis(input.name), row);
      }
      OutputMap want;
      for (const auto& [name, tensor] : outputs) {
        want[name] = engine_suite::SelectRow(tensor, engine_suite::RowAxis(name), row);
      }
      ExpectSame(Run(alone), want);
    }
  }
}

TEST_P(EngineSuite, PaddingDoesNotMatter) {
  for (double padding : {std::nan(""), HUGE_VAL, 0.0}) {
    for (int k = 0; k < 12; ++k) {
      Pinned pinned = engine_suite::OnnxLayout0();
      pinned.lengths = true;
      RandomOperator op = Draw(pinned);
      SCOPED_TRACE(op.Describe());
      const OutputMap want = Run(op);
      engine_suite::FillPadding(op, padding);
      ExpectSame(Run(op), want);
    }
  }
}

TEST_P(EngineSuite, NanAndInfinityStayInTheirRow) {
  for (double poison : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    for (int k = 0; k < 12; ++k) {
      Pinned pinned = engine_suite::OnnxLayout0();
      pinned.rows = 7;
      pinned.steps = 7;
      pinned.input_size = 7;
      RandomOperator op = Draw(pinned);
      SCOPED_TRACE(op.Describe());
      const OutputMap clean = Run(op);
      if (clean.empty()) continue;
      OwnedTensor* x = FindTensor(op.inputs, "X");
      std::vector<double> values = x->Values();
      values[static_cast<size_t>(3 * op.input_size)] = poison;  // t = 0, row 3
      *x = MakeTensor("X", x->type, x->shape, values);
      const OutputMap poisoned = Run(op);
      for (int64_t row = 0; row < op.rows; ++row) {
        if (row == 3) continue;
        for (const auto& [name, tensor] : clean) {
          const size_t axis = engine_suite::RowAxis(name);
          ExpectSame(engine_suite::SelectRow(poisoned.at(name), axis, row), engine_suite::SelectRow(tensor, axis, row));
        }
      }
      if (std::isnan(poison) && op.direction == Direction::kForward && op.lengths[3] > 0) {
        const double first = engine_suite::SelectRow(poisoned.at("Y"), 2, 3).Values()[0];
        EXPECT_TRUE(std::isnan(first)) << "NaN was lost: " << first;
      }
    }
  }
}

// W = R = B = 0: gates are 1/2, candidates 0.
TEST_P(EngineSuite, ZeroWeightsGiveKnownConstants) {
  const Shape x = {3, 1, 2}, state = {1, 1, 1};
  for (const auto& [name, gates] : {std::pair("LSTM", 4), std::pair("GRU", 3), std::pair("RNN", 1)}) {
    SCOPED_TRACE(name);
    OperatorDef op{"", name, 22, {}, {}};
    std::vector<OwnedTensor> inputs = {FilledTensor("X", type(), x, 1), FilledTensor("W", type(), {1, gates, 2}, 0),
                                       FilledTensor("R", type(), {1, gates, 1}, 0),
                                       FilledTensor("initial_h", type(), state, 1)};
    if (gates == 4) inputs.push_back(FilledTensor("initial_c", type(), state, 1));
    const OutputMap outputs = Run(op, inputs);
    if (outputs.empty()) continue;
    std::vector<double> want = {0, 0, 0};
    if (gates == 3) want = {0.5, 0.25, 0.125};
    if (gates == 4) want = {0.5 * std::tanh(0.5), 0.5 * std::tanh(0.25), 0.5 * std::tanh(0.125)};
    EXPECT_TRUE(ValuesNear(outputs.at("Y").Values(), want, GetParam().tolerance, &tally_));
    if (gates == 4) {
      EXPECT_TRUE(ValuesNear(outputs.at("Y_c").Values(), std::vector<double>{0.125}, GetParam().tolerance));
    }
  }
}

TEST_P(EngineSuite, AbsentInputsEqualTheirDefaults) {
  for (int k = 0; k < 30; ++k) {
    Pinned pinned = engine_suite::OnnxLayout0();
    pinned.lengths = false;
    RandomOperator op = Draw(pinned);
    std::erase_if(op.inputs, [](const OwnedTensor& input) {
      return input.name == "B" || input.name == "P" || input.name.starts_with("initial");
    });
    SCOPED_TRACE(op.Describe());
    const OutputMap absent = Run(op);
    if (absent.empty()) continue;
    const int64_t d = op.directions, n = op.rows, h = op.hidden_size;
    op.inputs.push_back(FilledTensor("B", type(), {d, 2 * GateCount(op.kind) * h}, 0));
    op.inputs.push_back(FilledTensor("sequence_lens", DataType::kInt32, {n}, static_cast<double>(op.steps)));
    op.inputs.push_back(FilledTensor("initial_h", type(), {d, n, h}, 0));
    if (op.kind == CellKind::kLstm) {
      op.inputs.push_back(FilledTensor("initial_c", type(), {d, n, h}, 0));
      op.inputs.push_back(FilledTensor("P", type(), {d, 3 * h}, 0));
      // An engine may take the cell without peepholes only.
      if (!SupportsOperator(*engine_, op.op, op.inputs, GetParam().options).ok()) op.inputs.pop_back();
    }
    ExpectSame(Run(op), absent);
  }
}

TEST_P(EngineSuite, FinalStateIsYAtTheLastValidStep) {
  for (int k = 0; k < 30; ++k) {
    const RandomOperator op = Draw(engine_suite::OnnxLayout0());
    SCOPED_TRACE(op.Describe());
    const OutputMap outputs = Run(op);
    if (outputs.empty()) continue;
    const std::vector<double> y = outputs.at("Y").Values(), y_h = outputs.at("Y_h").Values();
    for (int64_t d = 0; d < op.directions; ++d) {
      const bool backward = op.direction == Direction::kReverse || d == 1;
      for (int64_t n = 0; n < op.rows; ++n) {
        const int64_t length = op.lengths[static_cast<size_t>(n)];
        if (length == 0) continue;
        const int64_t t = backward ? 0 : length - 1;
        for (int64_t u = 0; u < op.hidden_size; ++u) {
          const size_t at = static_cast<size_t>(((t * op.directions + d) * op.rows + n) * op.hidden_size + u);
          ++tally_.values;
          EXPECT_EQ(y[at], y_h[static_cast<size_t>((d * op.rows + n) * op.hidden_size + u)]);
        }
      }
    }
  }
}

TEST_P(EngineSuite, EveryChoiceOfOutputsGivesTheSameValues) {
  for (int k = 0; k < 6; ++k) {
    const RandomOperator op = Draw(engine_suite::OnnxLayout0());
    SCOPED_TRACE(op.Describe());
    const OutputMap all = Run(op);
    std::vector<std::string> names;
    for (const auto& [name, tensor] : all) names.push_back(name);
    for (unsigned bits = 1; bits < (1u << names.size()); ++bits) {
      std::vector<std::string> wanted;
      for (size_t b = 0; b < names.size(); ++b) {
        if (bits & (1u << b)) wanted.push_back(names[b]);
      }
      const OutputMap some = Run(op.op, op.inputs, {}, wanted);
      ASSERT_EQ(some.size(), wanted.size());
      for (const std::string& name : wanted) ExpectSame(some.at(name), all.at(name));
    }
  }
}

}  // namespace rnnserve
