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
