// SPDX-License-Identifier: Apache-2.0
// Random operators for property tests. Each carries, next to what a caller would send, what was meant by it, so that
// the naive oracle needs none of engine/op.
#pragma once

#include <array>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/op/op_spec.h"
#include "tests/engine/support/owned_tensor.h"

namespace rnnserve {

struct MeantFunction {
  std::string name;  // as the text spells it
  double alpha = 0;
  double beta = 0;
};

struct RandomOperator {
  OperatorDef op;
  std::vector<OwnedTensor> inputs;

  bool openvino = false;
  CellKind kind = CellKind::kLstm;
  Direction direction = Direction::kForward;
  DataType type = DataType::kFloat;
  int64_t steps = 0, rows = 0, input_size = 0, hidden_size = 0, directions = 1, layout = 0;
  std::vector<int64_t> lengths;
  std::array<std::vector<MeantFunction>, 2> functions;
  double clip = HUGE_VAL;
  bool input_forget = false, linear_before_reset = false;

  // One line for failure messages.
  std::string Describe() const;
  const OwnedTensor* Find(const std::string& name) const { return FindTensor(inputs, name); }
};

// What a test pins; the rest is drawn.
struct Pinned {
  std::optional<CellKind> kind = {};
  std::optional<Direction> direction = {};
  std::optional<bool> openvino = {};
  std::optional<int64_t> layout = {};  // 1 implies version 14 or 22
  std::optional<bool> lengths = {};    // whether sequence_lens is given
  std::optional<int64_t> steps = {}, rows = {}, input_size = {};
  bool zero_lengths = true;  // lengths of 0 and T = 0 may occur
  bool default_functions = false;
};

RandomOperator MakeRandomOperator(std::mt19937_64& random, DataType type, const Pinned& pinned = {});

// All input names present, in words of ONNX: X, W, R, B, sequence_lens, initial_h, initial_c, P.
std::string InputName(const RandomOperator& op, const std::string& onnx_name);
// Y, Y_h, Y_c -> the operator's own.
std::string OutputName(const RandomOperator& op, const std::string& onnx_name);

}  // namespace rnnserve
