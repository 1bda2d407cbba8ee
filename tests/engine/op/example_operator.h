// SPDX-License-Identifier: Apache-2.0
// A valid operator with all its tensors, to be spoilt in one place by a test.
#pragma once

#include <string>
#include <vector>

#include "engine/op/stack.h"
#include "tests/engine/support/owned_tensor.h"

namespace rnnserve {

struct Example {
  OperatorDef op;
  std::vector<OwnedTensor> inputs;
  std::vector<std::string> wanted;
  RunOptions options;

  OwnedTensor& Input(const std::string& name) { return *FindTensor(inputs, name); }
  void Drop(const std::string& name) {
    std::erase_if(inputs, [&](const OwnedTensor& input) { return input.name == name; });
  }
  // Replaces or adds.
  void Put(OwnedTensor tensor) {
    Drop(tensor.name);
    inputs.push_back(std::move(tensor));
  }
  void PutFilled(const std::string& name, Shape shape, DataType type = DataType::kFloat) {
    Put(FilledTensor(name, type, std::move(shape), 0.25));
  }
};

// ONNX with T = 4, N = 2, I = 3, H = 2, float32, forward, all inputs present.
inline Example OnnxExample(const std::string& op_type, int64_t version) {
  const int64_t g = op_type == "LSTM" ? 4 : op_type == "GRU" ? 3 : 1;
  Example example;
  example.op = {"", op_type, version, {}, {}};
  example.PutFilled("X", {4, 2, 3});
  example.PutFilled("W", {1, g * 2, 3});
  example.PutFilled("R", {1, g * 2, 2});
  example.PutFilled("B", {1, g * 4});
  example.Put(MakeTensor("sequence_lens", DataType::kInt32, {2}, {4, 1}));
  example.PutFilled("initial_h", {1, 2, 2});
  if (g == 4) {
    example.PutFilled("initial_c", {1, 2, 2});
    example.PutFilled("P", {1, 6});
  }
  return example;
}

// OpenVINO of the same sizes.
inline Example OpenVinoExample(const std::string& op_type, int64_t version = 5) {
  const int64_t g = op_type == "LSTMSequence" ? 4 : op_type == "GRUSequence" ? 3 : 1;
  Example example;
  example.op = {"openvino", op_type, version, {}, {{"hidden_size", int64_t{2}}, {"direction", std::string("forward")}}};
  example.PutFilled("X", {2, 4, 3});
  example.PutFilled("W", {1, g * 2, 3});
  example.PutFilled("R", {1, g * 2, 2});
  example.PutFilled("B", {1, g * 2});
  example.Put(MakeTensor("sequence_lengths", DataType::kInt64, {2}, {4, 1}));
  example.PutFilled("initial_hidden_state", {2, 1, 2});
  if (g == 4) example.PutFilled("initial_cell_state", {2, 1, 2});
  return example;
}

// The way of a request up to its plan.
inline absl::StatusOr<RunPlan> Plan(const Example& example) {
  const std::vector<NamedTensor> views = Views(example.inputs);
  const absl::StatusOr<OpSpec> spec = ResolveOperator(example.op, views);
  if (!spec.ok()) return spec.status();
  return PlanRun(*spec, views, example.wanted, example.options);
}

inline absl::StatusOr<OpSpec> Resolve(const Example& example) {
  return ResolveOperator(example.op, Views(example.inputs));
}

}  // namespace rnnserve
