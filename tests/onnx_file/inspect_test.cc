// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "onnx_file/loader.h"
#include "tests/onnx_file/onnx_fixture.h"

namespace rnnserve {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

absl::StatusOr<OnnxInspection> Inspect(const onnx::ModelProto& model) {
  const TemporaryFolder folder;
  folder.Write("file.onnx", model.SerializeAsString());
  return InspectOnnx(Folder::Open(folder.path()).value(), "file.onnx");
}

// The extracted node as the server reads it.
absl::StatusOr<OnnxOperator> Reload(const OnnxInspection& found, size_t node) {
  const TemporaryFolder folder;
  folder.Write("model.onnx", ExtractOnnx(found, found.nodes[node]).value());
  return LoadLayer(Folder::Open(folder.path()).value());
}

onnx::ModelProto Empty() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.set_producer_name("test");
  model.add_opset_import()->set_version(14);
  return model;
}

onnx::GraphProto& AddBranch(onnx::NodeProto& node, const std::string& name) {
  return *AddAttribute(node, name, onnx::AttributeProto::GRAPH).mutable_g();
}

// RNN with I = 2, H = 1 and weights called w and r.
onnx::NodeProto& AddRnn(onnx::GraphProto& graph, const std::string& name, const std::string& w = "w") {
  onnx::NodeProto& node = AppendNode(graph, "RNN", {"x", w, "r"}, name + ".y");
  node.set_name(name);
  AddAttribute(node, "hidden_size", onnx::AttributeProto::INT).set_i(1);
  return node;
}

void AddWeights(onnx::GraphProto& graph) {
  *graph.add_initializer() = FloatTensor("w", {1, 1, 2}, 5);
  *graph.add_initializer() = FloatTensor("r", {1, 1, 1}, 7);
}

std::vector<float> Floats(const TensorView& view) {
  std::vector<float> values(view.data.size() / sizeof(float));
  std::memcpy(values.data(), view.data.data(), view.data.size());
  return values;
}

TEST(OnnxInspect, AModel) {
  const auto found = Inspect(SmallModel("GRU", 14, 2));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->loads.ok()) << found->loads;
  EXPECT_EQ(found->opset, 14);
  EXPECT_EQ(found->node_count, 1);
  ASSERT_EQ(found->nodes.size(), 1U);
  const InspectedNode& node = found->nodes[0];
  EXPECT_TRUE(node.status.ok()) << node.status;
  EXPECT_EQ(node.number, 1);
  EXPECT_EQ(node.name, "/rnn/GRU");
  EXPECT_THAT(node.path, IsEmpty());
  EXPECT_THAT(node.computed_weights, IsEmpty());
  EXPECT_EQ(node.spec->hidden_size, 1);
  EXPECT_EQ(node.spec->directions(), 2);
  ASSERT_EQ(node.inputs.size(), 3U);
  EXPECT_EQ(node.inputs[0].source, "graph input \"input.1\"");
  EXPECT_EQ(node.inputs[1].name, "sequence_lens");
  EXPECT_EQ(node.inputs[2].name, "initial_h");
}

TEST(OnnxInspect, BothBranchesOfNestedIfs) {
  onnx::ModelProto model = Empty();
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.add_input()->set_name("x");
  AddWeights(graph);
  onnx::NodeProto& outer = AppendNode(graph, "If", {"c"}, "y");
  outer.set_name("outer");
  onnx::GraphProto& then_branch = AddBranch(outer, "then_branch");
  *then_branch.add_initializer() = FloatTensor("w", {1, 1, 2}, 50);  // hides the outer one
  AddRnn(then_branch, "a");
  onnx::NodeProto& inner = AppendNode(AddBranch(outer, "else_branch"), "If", {"c"}, "y");
  AddRnn(AddBranch(inner, "then_branch"), "b");
  AddRnn(AddBranch(inner, "else_branch"), "b");
  const auto found = Inspect(model);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(std::string(found->loads.message()), HasSubstr("op_type \"If\""));
  EXPECT_EQ(found->node_count, 5);
  ASSERT_EQ(found->nodes.size(), 3U);
  EXPECT_THAT(found->nodes[0].path, ElementsAre("outer.then_branch"));
  EXPECT_THAT(found->nodes[1].path, ElementsAre("outer.else_branch", "node 0.then_branch"));
  EXPECT_THAT(found->nodes[2].path, ElementsAre("outer.else_branch", "node 0.else_branch"));
  for (size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(found->nodes[k].number, static_cast<int>(k) + 1);
    const auto loaded = Reload(*found, k);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_THAT(Floats(loaded->weights[0].tensor), ElementsAre(k == 0 ? 50 : 5, k == 0 ? 50.25 : 5.25));
    EXPECT_THAT(Floats(loaded->weights[1].tensor), ElementsAre(7));
  }
}

TEST(OnnxInspect, WeightsAreComputed) {
  onnx::ModelProto model = Empty();
  onnx::GraphProto& graph = *model.mutable_graph();
  AddWeights(graph);
  *graph.add_initializer() = FloatTensor("w.t", {2, 1}, 3);
  AppendNode(graph, "Transpose", {"w.t"}, "w.2d");
  AddAttribute(AppendNode(graph, "Unsqueeze", {"w.2d"}, "w.3d"), "axes", onnx::AttributeProto::INTS).add_ints(0);
  AppendNode(graph, "Relu", {"input"}, "x");
  AddRnn(graph, "rnn", "w.3d");
  const auto found = Inspect(model);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->nodes[0].computed_weights, ElementsAre("W"));
  EXPECT_THAT(found->nodes[0].inputs[0].source, HasSubstr("computed by node 2 (op_type \"Relu\")"));
  const auto loaded = Reload(*found, 0);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(Floats(loaded->weights[0].tensor), ElementsAre(3, 3.25));
}

TEST(OnnxInspect, InitialStatesAndLengths) {
  const auto extracted_inputs = [](const std::string& state, const onnx::TensorProto* value) {
    onnx::ModelProto model = SmallModel("GRU", 14);
    onnx::GraphProto& graph = *model.mutable_graph();
    if (value != nullptr) *graph.add_initializer() = *value;
    AppendNode(graph, "Foo", {"input.1"}, "computed");
    AppendNode(graph, "ConstantOfShape", {"computed"}, "zeros");
    AppendNode(graph, "Expand", {"value", "computed"}, "expanded");
    AppendNode(graph, "Cast", {"lengths"}, "lengths.32");
    graph.mutable_node(0)->set_input(4, "lengths.32");
    graph.mutable_node(0)->set_input(5, state);
    const auto found = Inspect(model).value();
    EXPECT_TRUE(found.nodes[0].status.ok()) << found.nodes[0].status;
    EXPECT_EQ(found.nodes[0].inputs[1].source, "graph input \"lengths\"");
    onnx::ModelProto extracted;
    EXPECT_TRUE(extracted.ParseFromString(ExtractOnnx(found, found.nodes[0]).value()));
    std::string names;
    for (const auto& input : extracted.graph().input()) names += input.name() + " ";
    const InspectedInput& given = found.nodes[0].inputs[2];
    return names + "| " + given.source + (given.remark.empty() ? "" : ", remark");
  };
  EXPECT_EQ(extracted_inputs("h0", nullptr), "X sequence_lens initial_h | graph input \"h0\"");
  EXPECT_EQ(extracted_inputs("computed", nullptr), "X sequence_lens initial_h | computed by node 1 (op_type \"Foo\")");
  EXPECT_EQ(extracted_inputs("zeros", nullptr), "X sequence_lens | fixed to zeros");
  onnx::TensorProto value = FloatTensor("value", {1, 1, 1}, 0);
  EXPECT_EQ(extracted_inputs("expanded", &value), "X sequence_lens | fixed to zeros");
  value.set_float_data(0, 1);
  EXPECT_EQ(extracted_inputs("expanded", &value), "X sequence_lens initial_h | fixed in the file, remark");
}

TEST(OnnxInspect, TheExtractedFileSaysWhatItTakes) {
  onnx::ModelProto model = SmallModel("LSTM", 14);
  onnx::NodeProto& node = *model.mutable_graph()->mutable_node(0);
  AddAttribute(node, "clip", onnx::AttributeProto::FLOAT).set_f(1.5F);
  AddAttribute(node, "direction", onnx::AttributeProto::STRING).set_s("reverse");
  auto& activations = AddAttribute(node, "activations", onnx::AttributeProto::STRINGS);
  for (const char* name : {"HardSigmoid", "Tanh", "Relu"}) activations.add_strings(name);
  AddAttribute(node, "activation_alpha", onnx::AttributeProto::FLOATS).add_floats(0.25F);
  node.mutable_attribute()->DeleteSubrange(0, 1);  // hidden_size, which is known from R
  const auto found = Inspect(model);
  ASSERT_TRUE(found.ok()) << found.status();
  onnx::ModelProto extracted;
  ASSERT_TRUE(extracted.ParseFromString(ExtractOnnx(*found, found->nodes[0]).value()));
  EXPECT_EQ(extracted.opset_import(0).version(), 14);
  EXPECT_EQ(extracted.graph().input(0).type().tensor_type().elem_type(), onnx::TensorProto::FLOAT);
  EXPECT_EQ(extracted.graph().input(0).type().tensor_type().shape().dim(0).dim_param(), "T");
  EXPECT_EQ(extracted.graph().input(0).type().tensor_type().shape().dim(2).dim_value(), 2);
  EXPECT_EQ(extracted.graph().input(1).type().tensor_type().elem_type(), onnx::TensorProto::INT32);
  EXPECT_EQ(extracted.graph().output_size(), 3);
  const auto loaded = Reload(*found, 0);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  std::map<std::string, AttributeValue> expected = found->nodes[0].op.attributes;
  EXPECT_EQ(expected.size(), 4U);
  expected["hidden_size"] = int64_t{1};
  EXPECT_EQ(loaded->op.attributes, expected);
}

TEST(OnnxInspect, WhatCannotBeLoadedSaysWhy) {
  onnx::ModelProto model = Empty();
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.add_input()->set_name("given");
  AddWeights(graph);
  *graph.add_initializer() = FloatTensor("wrong", {1, 2, 2});
  AppendNode(graph, "MatMul", {"w", "w"}, "product");
  AppendNode(graph, "Identity", {"given"}, "given.1");
  AppendNode(graph, "Identity", {"given.1"}, "given.2");
  const std::vector<std::pair<std::string, std::vector<std::string>>> expected = {
      {"given", {"W (input 1, \"given\") is a graph input", "do_constant_folding"}},
      {"given.2", {"is computed by node 1 (op_type \"Identity\") from \"given\", which is a graph input"}},
      {"product", {"is computed by node 0 (op_type \"MatMul\"), which is not done when a file is loaded"}},
      {"nowhere", {"is neither a graph input nor an initializer"}},
      {"wrong", {"W", "[1, 2, 2]"}}};
  for (const auto& [w, texts] : expected) AddRnn(graph, w, w);
  AddRnn(graph, "many").mutable_input()->Reserve(8);
  for (int k = 0; k < 5; ++k) graph.mutable_node(graph.node_size() - 1)->add_input("x");
  AddAttribute(AddRnn(graph, "odd"), "colour", onnx::AttributeProto::TENSOR);
  AddRnn(graph, "blind").set_input(0, "");
  const auto found = Inspect(model);
  ASSERT_TRUE(found.ok()) << found.status();
  for (size_t k = 0; k < expected.size(); ++k) {
    for (const std::string& text : expected[k].second) {
      EXPECT_THAT(std::string(found->nodes[k].status.message()), HasSubstr(text)) << expected[k].first;
    }
    EXPECT_FALSE(ExtractOnnx(*found, found->nodes[k]).ok());
  }
  EXPECT_THAT(std::string(found->nodes[5].status.message()), HasSubstr("has 8 inputs, but the operator has 6"));
  EXPECT_THAT(std::string(found->nodes[6].status.message()), HasSubstr("attribute \"colour\" has type TENSOR"));
  EXPECT_THAT(std::string(found->nodes[7].status.message()), HasSubstr("has no input X"));
}

TEST(OnnxInspect, OperatorsOfOtherDomainsAreShown) {
  onnx::ModelProto model = Empty();
  AddWeights(*model.mutable_graph());
  for (const char* op_type : {"DynamicQuantizeLSTM", "MatMul"}) {
    onnx::NodeProto& node = AddRnn(*model.mutable_graph(), op_type);
    node.set_op_type(op_type);
    node.set_domain("com.microsoft");
  }
  const auto found = Inspect(model);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->nodes.size(), 1U);
  EXPECT_EQ(found->nodes[0].op.op_type, "DynamicQuantizeLSTM");
  EXPECT_THAT(std::string(found->nodes[0].status.message()),
              AllOf(HasSubstr("domain \"com.microsoft\""), HasSubstr("before it is quantized")));
}

TEST(OnnxInspect, LoopsAndFunctions) {
  onnx::ModelProto model = Empty();
  AddWeights(*model.mutable_graph());
  onnx::GraphProto& body = AddBranch(AppendNode(*model.mutable_graph(), "Loop", {}, "y"), "body");
  AddRnn(AddBranch(AppendNode(body, "If", {"c"}, "y"), "else_branch"), "looped");
  AddRnn(*model.mutable_graph(), "free");
  onnx::FunctionProto& function = *model.add_functions();
  function.set_name("stage");
  onnx::GraphProto inside;
  AddRnn(inside, "called");
  *function.add_node() = inside.node(0);
  const auto found = Inspect(model);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->nodes.size(), 3U);
  EXPECT_THAT(std::string(found->nodes[0].status.message()),
              AllOf(HasSubstr("lies in body of node 0 (op_type \"Loop\")"), HasSubstr("on its own")));
  EXPECT_TRUE(found->nodes[1].status.ok()) << found->nodes[1].status;
  EXPECT_THAT(std::string(found->nodes[2].status.message()),
              AllOf(HasSubstr("function stage"), HasSubstr("inline_local_functions")));
  EXPECT_THAT(found->nodes[2].path, ElementsAre("function stage"));
}

}  // namespace
}  // namespace rnnserve
