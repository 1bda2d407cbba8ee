// SPDX-License-Identifier: Apache-2.0
// Temporary folders, and small ONNX models to put there.
#pragma once

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "onnx_file/loader.h"

namespace rnnserve {

// A file that has to be of one layer.
inline absl::StatusOr<OnnxOperator> LoadLayer(const Folder& folder, const OnnxLimits& limits = {},
                                              const std::string& name = "model.onnx") {
  absl::StatusOr<OnnxStack> stack = LoadOnnx(folder, limits, name);
  if (!stack.ok()) return stack.status();
  EXPECT_EQ(stack->layers.size(), 1U);
  return std::move(stack->layers[0]);
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = testing::TempDir() + "rnnserve_XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(const std::string& below = "") const { return below.empty() ? path_ : path_ + "/" + below; }
  // Makes the folders on the way.
  void Write(const std::string& below, const std::string& bytes) const {
    const std::filesystem::path file = path(below);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
  }

 private:
  std::string path_;
};

inline onnx::TensorProto FloatTensor(const std::string& name, const std::vector<int64_t>& dims, float first = 0.5F) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  int64_t elements = 1;
  for (const int64_t dim : dims) {
    tensor.add_dims(dim);
    elements *= dim;
  }
  for (int64_t k = 0; k < elements; ++k) tensor.add_float_data(first + 0.25F * static_cast<float>(k));
  return tensor;
}

inline std::string RawBytes(const onnx::TensorProto& floats) {
  return {reinterpret_cast<const char*>(floats.float_data().data()),
          sizeof(float) * static_cast<size_t>(floats.float_data_size())};
}

inline onnx::AttributeProto& AddAttribute(onnx::NodeProto& node, const std::string& name,
                                          onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(type);
  return attribute;
}

inline onnx::NodeProto& AppendNode(onnx::GraphProto& graph, const std::string& op_type,
                                   const std::vector<std::string>& inputs, const std::string& output) {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op_type);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

// I = 2, H = 1, with B, sequence_lens and initial_h; inputs are named as exporters do. Its node is the only one.
inline onnx::ModelProto SmallModel(const std::string& op_type, int64_t opset, int64_t directions = 1) {
  const int64_t gates = op_type == "LSTM" ? 4 : op_type == "GRU" ? 3 : 1;
  onnx::ModelProto model;
  model.set_ir_version(7);
  model.add_opset_import()->set_version(opset);
  onnx::GraphProto& graph = *model.mutable_graph();
  for (const char* input : {"input.1", "lengths", "h0"}) graph.add_input()->set_name(input);
  *graph.add_initializer() = FloatTensor("onnx::W_12", {directions, gates, 2});
  *graph.add_initializer() = FloatTensor("onnx::R_13", {directions, gates, 1}, 1);
  *graph.add_initializer() = FloatTensor("onnx::B_14", {directions, 2 * gates}, 2);
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op_type);
  node.set_name("/rnn/" + op_type);
  for (const char* input : {"input.1", "onnx::W_12", "onnx::R_13", "onnx::B_14", "lengths", "h0"}) {
    node.add_input(input);
  }
  for (const char* output : {"out", "h_n"}) node.add_output(output);
  AddAttribute(node, "hidden_size", onnx::AttributeProto::INT).set_i(1);
  if (directions == 2) AddAttribute(node, "direction", onnx::AttributeProto::STRING).set_s("bidirectional");
  return model;
}

// Two bidirectional layers, I = 2, H = 1, joined as PyTorch does: nodes 0 and 3, with Transpose and Reshape between.
inline onnx::ModelProto TwoLayers(const std::string& op_type) {
  const int64_t gates = op_type == "LSTM" ? 4 : op_type == "GRU" ? 3 : 1;
  onnx::ModelProto model;
  model.set_ir_version(7);
  model.add_opset_import()->set_version(9);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.add_input()->set_name("x");
  for (const std::string layer : {"0", "1"}) {
    *graph.add_initializer() = FloatTensor("W." + layer, {2, gates, 2}, layer == "0" ? 0.5F : -0.5F);
    *graph.add_initializer() = FloatTensor("R." + layer, {2, gates, 1}, 1);
    onnx::NodeProto& node = *graph.add_node();
    node.set_op_type(op_type);
    for (const std::string& input : {layer == "0" ? std::string("x") : "x.1", "W." + layer, "R." + layer}) {
      node.add_input(input);
    }
    for (const char* output : {"Y.", "Y_h."}) node.add_output(output + layer);
    AddAttribute(node, "hidden_size", onnx::AttributeProto::INT).set_i(1);
    AddAttribute(node, "direction", onnx::AttributeProto::STRING).set_s("bidirectional");
    if (layer == "1") break;
    onnx::NodeProto& turn = *graph.add_node();
    turn.set_op_type("Transpose");
    turn.add_input("Y.0");
    turn.add_output("turned.0");
    auto& perm = AddAttribute(turn, "perm", onnx::AttributeProto::INTS);
    for (const int64_t axis : {0, 2, 1, 3}) perm.add_ints(axis);
    onnx::TensorProto& shape = *graph.add_initializer();
    shape.set_name("shape");
    shape.set_data_type(onnx::TensorProto::INT64);
    shape.add_dims(3);
    for (const int64_t size : {0, 0, -1}) shape.add_int64_data(size);
    onnx::NodeProto& reshape = *graph.add_node();
    reshape.set_op_type("Reshape");
    for (const char* input : {"turned.0", "shape"}) reshape.add_input(input);
    reshape.add_output("x.1");
  }
  graph.add_output()->set_name("Y.1");
  return model;
}

}  // namespace rnnserve
