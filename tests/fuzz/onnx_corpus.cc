// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/onnx_corpus.h"

#include <onnx/onnx_pb.h>

#include "absl/strings/str_cat.h"
#include "tests/onnx_file/hostile_files.h"
#include "tests/onnx_file/onnx_fixture.h"

namespace rnnserve {
namespace {

onnx::NodeProto& AddNode(onnx::GraphProto& graph, const std::string& op_type, const std::vector<std::string>& inputs,
                         const std::string& output) {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op_type);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

void AddInts(onnx::GraphProto& graph, const std::string& output, const std::vector<int64_t>& values) {
  onnx::NodeProto& node = AddNode(graph, "Constant", {}, output);
  AddAttribute(node, "value_ints", onnx::AttributeProto::INTS).mutable_ints()->Add(values.begin(), values.end());
}

// Weights computed by every foldable operator, in both branches of an If.
onnx::ModelProto Folded() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(16);
  onnx::GraphProto& graph = *model.mutable_graph();
  for (const char* input : {"x", "h", "lengths"}) graph.add_input()->set_name(input);
  *graph.add_initializer() = FloatTensor("weight_ih", {6, 2});
  *graph.add_initializer() = FloatTensor("weight_hh", {2, 6}, 1);
  onnx::TensorProto& half = *graph.add_initializer();
  half.set_name("bias");
  half.set_data_type(onnx::TensorProto::FLOAT16);
  half.add_dims(12);
  for (int k = 0; k < 12; ++k) half.add_int32_data(0x3c00 + k);
  AddInts(graph, "first", {0});
  AddInts(graph, "two", {2});
  AddInts(graph, "end", {6});
  AddInts(graph, "order", {4, 5, 0, 1, 2, 3});
  AddNode(graph, "Slice", {"weight_ih", "first", "two", "first"}, "w.a");
  AddNode(graph, "Slice", {"weight_ih", "two", "end", "first"}, "w.b");
  AddAttribute(AddNode(graph, "Concat", {"w.b", "w.a"}, "w.2d"), "axis", onnx::AttributeProto::INT).set_i(0);
  AddNode(graph, "Unsqueeze", {"w.2d", "first"}, "w");
  AddNode(graph, "Transpose", {"weight_hh"}, "r.2d");
  AddNode(graph, "Gather", {"r.2d", "order"}, "r.ordered");
  AddInts(graph, "r.shape", {1, 6, -1});
  AddNode(graph, "Reshape", {"r.ordered", "r.shape"}, "r");
  AddAttribute(AddNode(graph, "Cast", {"bias"}, "b.1d"), "to", onnx::AttributeProto::INT).set_i(1);
  AddNode(graph, "Unsqueeze", {"b.1d", "first"}, "b.2d");
  AddNode(graph, "Identity", {"b.2d"}, "b");
  onnx::NodeProto& branches = AddNode(graph, "If", {"condition"}, "y");
  for (const char* name : {"then_branch", "else_branch"}) {
    onnx::GraphProto& branch = *AddAttribute(branches, name, onnx::AttributeProto::GRAPH).mutable_g();
    onnx::NodeProto& gru = AddNode(branch, "GRU", {"x", "w", "r", "b", "lengths", "h"}, "y");
    AddAttribute(gru, "hidden_size", onnx::AttributeProto::INT).set_i(2);
  }
  return model;
}

// What a whole model does with the lengths of its rows, and steps turned round.
onnx::ModelProto OfLengths() {
  onnx::ModelProto model = SmallModel("RNN", 14);
  onnx::GraphProto& graph = *model.mutable_graph();
  onnx::NodeProto rnn = graph.node(0);
  graph.clear_node();
  graph.clear_input();
  graph.clear_output();
  const auto describe = [](onnx::ValueInfoProto& value, const char* name, int type, const std::vector<int64_t>& dims) {
    value.set_name(name);
    value.mutable_type()->mutable_tensor_type()->set_elem_type(type);
    onnx::TensorShapeProto& shape = *value.mutable_type()->mutable_tensor_type()->mutable_shape();
    for (const int64_t dim : dims) {
      onnx::TensorShapeProto::Dimension& made = *shape.add_dim();
      if (dim > 0) made.set_dim_value(dim);
    }
  };
  describe(*graph.add_input(), "x", onnx::TensorProto::FLOAT, {0, 0, 2});
  describe(*graph.add_input(), "lengths", onnx::TensorProto::INT64, {0});
  AddInts(graph, "first", {0});
  AddInts(graph, "one", {1});
  AddInts(graph, "back", {-1});
  AddInts(graph, "far", {-(int64_t{1} << 62)});
  AddNode(graph, "Shape", {"lengths"}, "rows");
  AddNode(graph, "TopK", {"lengths", "rows"}, "sorted").add_output("order");
  AddNode(graph, "Cast", {"sorted"}, "lens");
  AddAttribute(*graph.mutable_node(graph.node_size() - 1), "to", onnx::AttributeProto::INT).set_i(6);
  AddAttribute(AddNode(graph, "Gather", {"x", "order"}, "x.sorted"), "axis", onnx::AttributeProto::INT).set_i(1);
  AddNode(graph, "Slice", {"x.sorted", "back", "far", "first", "back"}, "x.turned");
  AddNode(graph, "Slice", {"x.turned", "back", "far", "first", "back"}, "x.again");
  rnn.set_input(0, "x.again");
  while (rnn.input_size() < 5) rnn.add_input("");
  rnn.set_input(4, "lens");
  rnn.clear_output();
  rnn.add_output("y.sorted");
  *graph.add_node() = rnn;
  AddNode(graph, "Squeeze", {"rows"}, "count");
  AddNode(graph, "Squeeze", {"first"}, "zero");
  AddNode(graph, "Squeeze", {"one"}, "single");
  AddNode(graph, "Range", {"zero", "count", "single"}, "places");
  AddNode(graph, "ConstantOfShape", {"rows"}, "empty");
  AddNode(graph, "ScatterElements", {"empty", "order", "places"}, "home");
  AddAttribute(AddNode(graph, "Gather", {"y.sorted", "home"}, "y"), "axis", onnx::AttributeProto::INT).set_i(2);
  AddNode(graph, "Shape", {"x"}, "sizes");
  AddNode(graph, "Gather", {"sizes", "zero"}, "steps");
  AddNode(graph, "Range", {"zero", "steps", "single"}, "counted");
  AddNode(graph, "Unsqueeze", {"counted", "one"}, "column");
  AddNode(graph, "Less", {"column", "lengths"}, "mask");
  AddNode(graph, "Unsqueeze", {"mask", "one"}, "mask.3");
  AddNode(graph, "Unsqueeze", {"mask.3", "back"}, "mask.4");
  AddNode(graph, "Not", {"mask.4"}, "padding");
  *graph.add_initializer() = FloatTensor("low", {1});
  AddNode(graph, "Where", {"padding", "low", "y"}, "masked");
  AddNode(graph, "ReduceSum", {"masked", "first"}, "total");
  AddAttribute(AddNode(graph, "Cast", {"lengths"}, "divisor"), "to", onnx::AttributeProto::INT).set_i(1);
  AddNode(graph, "Unsqueeze", {"divisor", "back"}, "divisors");
  AddNode(graph, "Div", {"total", "divisors"}, "mean");
  for (const char* output : {"y", "mean"}) describe(*graph.add_output(), output, onnx::TensorProto::FLOAT, {0});
  return model;
}

onnx::ModelProto WithExternalData() {
  onnx::ModelProto model = SmallModel("RNN", 14);
  onnx::TensorProto& tensor = *model.mutable_graph()->mutable_initializer(0);
  tensor.clear_float_data();
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  for (const auto& [key, value] : {std::pair("location", "w.bin"), {"offset", "8"}, {"length", "8"}}) {
    onnx::StringStringEntryProto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
  return model;
}

}  // namespace

std::vector<CorpusFile> OnnxCorpus() {
  std::vector<CorpusFile> corpus;
  for (const char* op_type : {"LSTM", "GRU", "RNN"}) {
    for (const int64_t opset : {7, 14, 22}) {
      for (const int64_t directions : {1, 2}) {
        corpus.push_back({absl::StrCat(op_type, "-", opset, "-", directions),
                          SmallModel(op_type, opset, directions).SerializeAsString()});
      }
    }
  }
  for (const char* op_type : {"LSTM", "RNN"}) {
    corpus.push_back({absl::StrCat("two layers of ", op_type), TwoLayers(op_type).SerializeAsString()});
  }
  corpus.push_back({"folded", Folded().SerializeAsString()});
  corpus.push_back({"lengths", OfLengths().SerializeAsString()});
  corpus.push_back({"external", WithExternalData().SerializeAsString()});
  for (HostileFile& file : HostileFiles()) corpus.push_back({std::move(file.name), std::move(file.bytes)});
  return corpus;
}

}  // namespace rnnserve
