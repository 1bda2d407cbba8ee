// SPDX-License-Identifier: Apache-2.0
// Files of several layers. Whole graphs against onnxruntime: tests/integration/test_stacks.py.
#include "engine/op/stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "onnx_file/inspect.h"
#include "onnx_file/loader.h"
#include "tests/onnx_file/onnx_fixture.h"

namespace rnnserve::stack_of_nodes {
namespace {

using testing::AllOf;
using testing::HasSubstr;

absl::StatusOr<OnnxStack> Load(const onnx::ModelProto& model) {
  const TemporaryFolder folder;
  folder.Write("model.onnx", model.SerializeAsString());
  return LoadOnnx(Folder::Open(folder.path()).value());
}

std::string Refusal(const onnx::ModelProto& model) { return std::string(Load(model).status().message()); }

TEST(OnnxStackTest, LayersAndWeights) {
  const auto stack = Load(TwoLayers("GRU"));
  ASSERT_TRUE(stack.ok()) << stack.status();
  ASSERT_EQ(stack->layers.size(), 2U);
  EXPECT_FALSE(stack->batch_first);
  EXPECT_THAT(stack->layers[0].weights[0].tensor.shape, testing::ElementsAre(2, 3, 2));
  EXPECT_THAT(stack->layers[1].weights[0].tensor.shape, testing::ElementsAre(2, 3, 2));
  EXPECT_EQ(stack->layers[1].op.op_type, "GRU");
  std::vector<LayerView> layers;
  for (const OnnxOperator& layer : stack->layers) layers.push_back({layer.op, layer.weights});
  EXPECT_TRUE(ResolveStack(layers).ok()) << ResolveStack(layers).status();
}

TEST(OnnxStackTest, InspectionSaysThatItLoads) {
  const TemporaryFolder folder;
  folder.Write("model.onnx", TwoLayers("LSTM").SerializeAsString());
  const auto found = InspectOnnx(Folder::Open(folder.path()).value(), "model.onnx");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->loads.ok()) << found->loads;
  EXPECT_EQ(found->nodes.size(), 2U);
}

// TwoLayers with shapes of its graph inputs, `outputs` instead of its own, and a node that makes the last of them of Y.
onnx::ModelProto Described(const std::vector<std::string>& outputs, const std::vector<int64_t>& perm) {
  onnx::ModelProto model = TwoLayers("GRU");
  onnx::GraphProto& graph = *model.mutable_graph();
  onnx::TypeProto::Tensor& type = *graph.mutable_input(0)->mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  for (const char* axis : {"t", "n"}) type.mutable_shape()->add_dim()->set_dim_param(axis);
  type.mutable_shape()->add_dim()->set_dim_value(2);
  onnx::NodeProto& turn = *graph.add_node();
  turn.set_op_type("Transpose");
  turn.add_input("Y.1");
  turn.add_output("turned");
  auto& attribute = AddAttribute(turn, "perm", onnx::AttributeProto::INTS);
  for (const int64_t axis : perm) attribute.add_ints(axis);
  graph.clear_output();
  for (const std::string& name : outputs) graph.add_output()->set_name(name);
  return model;
}

TEST(OnnxStackTest, TheFilesOwnNames) {
  const auto stack = Load(Described({"turned", "Y_h.1"}, {2, 0, 1, 3}));
  ASSERT_TRUE(stack.ok()) << stack.status();
  EXPECT_EQ(stack->pipeline, nullptr);
  ASSERT_NE(stack->file_names, nullptr);
  const FileNames& names = *stack->file_names;
  ASSERT_EQ(names.inputs.size(), 1U);
  EXPECT_EQ(names.x().name, "x");
  EXPECT_THAT(names.x().shape, testing::ElementsAre(kDimT, kDimN, 2));
  ASSERT_EQ(names.outputs.size(), 2U);
  EXPECT_EQ(names.outputs[0].name, "turned");
  EXPECT_THAT(names.outputs[0].shape, testing::ElementsAre(kDimN, kDimT, 2, 1));
  EXPECT_THAT(names.outputs[0].order, testing::ElementsAre(OutputAxis::kN, OutputAxis::kT, OutputAxis::kD));
  EXPECT_EQ(names.outputs[1].kind, OutputKind::kFinalH);
  EXPECT_EQ(names.outputs[1].layer, 1U);
}

TEST(OnnxStackTest, WhatLayersCannotWriteIsAPipeline) {
  // Y twice has two places to go, and one of a layer before the last is not written at all: a pipeline does it.
  for (const auto& outputs : {std::vector<std::string>{"turned", "Y.1"}, {"turned", "Y.0"}}) {
    const auto stack = Load(Described(outputs, {0, 2, 1, 3}));
    ASSERT_TRUE(stack.ok()) << stack.status();
    EXPECT_EQ(stack->file_names, nullptr);
    ASSERT_NE(stack->pipeline, nullptr);
    EXPECT_EQ(stack->pipeline->outputs[1].name, outputs[1]);
  }
  // H is 1, so it may lie anywhere; numbers before steps and rows would have to be turned.
  EXPECT_NE(Load(Described({"turned"}, {0, 2, 3, 1}))->file_names, nullptr);
}

TEST(OnnxStackTest, NamesAreWhatTheGraphSays) {
  const auto bare = Load(TwoLayers("GRU"));  // no shapes
  ASSERT_TRUE(bare.ok()) << bare.status();
  EXPECT_EQ(bare->file_names, nullptr);
  EXPECT_EQ(bare->pipeline, nullptr);
  const std::string one = Load(Described({"turned"}, {0, 2, 1, 3}))->file_names->CanonicalText();
  const std::string other = Load(Described({"turned"}, {2, 0, 1, 3}))->file_names->CanonicalText();
  EXPECT_NE(one, other);
}

TEST(OnnxStackTest, NamesThatNoMessageCanCarry) {
  // The layers are known by the operators' names; a file that computes is refused.
  for (const std::string& name : {std::string("\xff\xfe"), std::string("\xc0\x80"), std::string(600, 'x')}) {
    onnx::ModelProto model = Described({name}, {2, 0, 1, 3});
    onnx::NodeProto& turn = *model.mutable_graph()->mutable_node(model.graph().node_size() - 1);
    turn.set_output(0, name);
    const auto stack = Load(model);
    ASSERT_TRUE(stack.ok()) << stack.status();
    EXPECT_EQ(stack->file_names, nullptr);
    EXPECT_EQ(stack->pipeline, nullptr);
    turn.clear_attribute();
    turn.set_op_type("Tanh");
    EXPECT_THAT(Refusal(model), AllOf(HasSubstr("graph output"), HasSubstr("UTF-8")));
  }
}

TEST(OnnxStackTest, AnOutputThatCannotBeServedIsNotLeftOut) {
  onnx::ModelProto model = Described({"turned", "flat"}, {0, 2, 1, 3});
  onnx::GraphProto& graph = *model.mutable_graph();
  onnx::TensorProto& shape = *graph.add_initializer();
  shape.set_name("two_axes");
  shape.set_data_type(onnx::TensorProto::INT64);
  shape.add_dims(2);
  for (const int64_t size : {-1, 2}) shape.add_int64_data(size);
  onnx::NodeProto& flat = *graph.add_node();  // steps and rows in one axis
  flat.set_op_type("Reshape");
  flat.add_input("turned");
  flat.add_input("two_axes");
  flat.add_output("flat");
  EXPECT_THAT(Refusal(model), HasSubstr("graph output \"flat\" [T*N, 2] joins steps or rows"));
}

TEST(OnnxStackTest, XTurnedOnce) {
  onnx::ModelProto model = TwoLayers("RNN");
  onnx::GraphProto& graph = *model.mutable_graph();
  onnx::NodeProto turn;
  turn.set_op_type("Transpose");
  turn.add_input("x");
  turn.add_output("turned");
  auto& perm = AddAttribute(turn, "perm", onnx::AttributeProto::INTS);
  for (const int64_t axis : {1, 0, 2}) perm.add_ints(axis);
  graph.mutable_node(0)->set_input(0, "turned");
  *graph.add_node() = turn;
  const auto stack = Load(model);
  ASSERT_TRUE(stack.ok()) << stack.status();
  EXPECT_TRUE(stack->batch_first);
  graph.mutable_node(graph.node_size() - 1)->mutable_attribute(0)->set_ints(2, 1);
  EXPECT_THAT(Refusal(model), AllOf(HasSubstr("input 0"), HasSubstr("Transpose"), HasSubstr("batch_first")));
}

TEST(OnnxStackTest, StatesOfAllLayersAreCutInOrder) {
  const auto cut = [](const std::vector<std::pair<int64_t, int64_t>>& rows, int64_t axis = 0) {
    onnx::ModelProto model = TwoLayers("GRU");
    onnx::GraphProto& graph = *model.mutable_graph();
    graph.add_input()->set_name("h0");
    for (int layer = 0; layer < 2; ++layer) {
      onnx::NodeProto& slice = *graph.add_node();
      slice.set_op_type("Slice");
      slice.add_input("h0");
      slice.add_output("h0." + std::to_string(layer));
      for (const char* name : {"starts", "ends", "axes"}) {
        AddAttribute(slice, name, onnx::AttributeProto::INTS)
            .add_ints(*name == 's'   ? rows[static_cast<size_t>(layer)].first
                      : *name == 'e' ? rows[static_cast<size_t>(layer)].second
                                     : axis);
      }
      onnx::NodeProto& node = *graph.mutable_node(layer == 0 ? 0 : 3);
      EXPECT_EQ(node.op_type(), "GRU");
      while (node.input_size() < 6) node.add_input("");
      node.set_input(5, slice.output(0));
    }
    return model;
  };
  EXPECT_TRUE(Load(cut({{0, 2}, {2, 4}})).ok()) << Refusal(cut({{0, 2}, {2, 4}}));
  EXPECT_TRUE(Load(cut({{-4, -2}, {-2, std::numeric_limits<int64_t>::max()}})).ok());
  EXPECT_TRUE(Load(cut({{0, 2}, {2, 4}}, -3)).ok()) << Refusal(cut({{0, 2}, {2, 4}}, -3));
  EXPECT_THAT(Refusal(cut({{0, 2}, {2, 4}}, 1)), HasSubstr("other axes than the first"));
  EXPECT_THAT(Refusal(cut({{2, 4}, {0, 2}})),
              AllOf(HasSubstr("node 0"), HasSubstr("rows 0 to 1 of graph input \"h0\"")));
  EXPECT_THAT(Refusal(cut({{0, 2}, {1, 3}})), HasSubstr("rows 2 to 3"));
  EXPECT_THAT(Refusal(cut({{0, 1}, {1, 2}})), HasSubstr("rows 0 to 1"));
}

// As PyTorch exports layers without initial states: zeros of the sizes of each layer's X.
TEST(OnnxStackTest, ZerosOfTheSizesOfWhatTheLayerBeforeGave) {
  onnx::ModelProto model = TwoLayers("GRU");
  onnx::GraphProto& graph = *model.mutable_graph();
  onnx::NodeProto second = graph.node(3);
  graph.mutable_node()->RemoveLast();
  for (const auto& [op_type, input, output] :
       {std::tuple("Shape", "x.1", "sizes"), {"ConstantOfShape", "sizes", "zeros"}}) {
    onnx::NodeProto& node = *graph.add_node();
    node.set_op_type(op_type);
    node.add_input(input);
    node.add_output(output);
  }
  while (second.input_size() < 5) second.add_input("");
  second.add_input("zeros");
  *graph.add_node() = second;
  EXPECT_TRUE(Load(model).ok()) << Load(model).status();
}

TEST(OnnxStackTest, LinksThatAreNone) {
  onnx::ModelProto model = TwoLayers("GRU");
  onnx::NodeProto& second = *model.mutable_graph()->mutable_node(3);
  second.set_input(0, "x");
  EXPECT_THAT(Refusal(model), AllOf(HasSubstr("node 3"), HasSubstr("is not what node 0")));
  second.set_input(0, "Y_h.0");
  EXPECT_THAT(Refusal(model), HasSubstr("is a final state"));
  second.set_input(0, "Y.0");
  EXPECT_THAT(Refusal(model), HasSubstr("[T, 2, N, 1], but [T, N, D*H] is needed"));
  second.clear_input();
  EXPECT_THAT(Refusal(model), HasSubstr("X (input 0, \"\")"));
}

}  // namespace
}  // namespace rnnserve::stack_of_nodes
