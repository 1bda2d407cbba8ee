// SPDX-License-Identifier: Apache-2.0
// ExtractOnnx of several nodes: which make a stack, and what the others are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "onnx_file/inspect.h"
#include "onnx_file/loader.h"
#include "tests/onnx_file/onnx_fixture.h"

namespace rnnserve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Layers with I = H = 1: "a" takes x; "b", "c" and "d" take what is told.
class Layers {
 public:
  Layers() {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(14);
    onnx::GraphProto& graph = *model_.mutable_graph();
    graph.add_input()->set_name("x");
    *graph.add_initializer() = FloatTensor("w", {1, 1, 1});
    onnx::TensorProto& axis = *graph.add_initializer();
    axis.set_name("axis");
    axis.set_data_type(onnx::TensorProto::INT64);
    axis.add_dims(1);
    axis.add_int64_data(1);
    Add("a", "x");
  }

  onnx::GraphProto& graph() { return *model_.mutable_graph(); }

  // Gives name.y, [T, N, 1], and name.h.
  onnx::NodeProto& Add(const std::string& name, const std::string& x) {
    onnx::NodeProto& node = AppendNode(graph(), "RNN", {x, "w", "w"}, name + ".raw");
    node.set_name(name);
    node.add_output(name + ".h");
    AddAttribute(node, "hidden_size", onnx::AttributeProto::INT).set_i(1);
    AppendNode(graph(), "Squeeze", {name + ".raw", "axis"}, name + ".y");
    return *graph().mutable_node(graph().node_size() - 2);
  }

  absl::StatusOr<std::string> Extract(const std::vector<std::string>& names) {
    const TemporaryFolder folder;
    folder.Write("file.onnx", model_.SerializeAsString());
    const Folder opened = Folder::Open(folder.path()).value();
    const OnnxInspection found = InspectOnnx(opened, "file.onnx").value();
    std::vector<const InspectedNode*> nodes;
    for (const std::string& name : names) {
      for (const InspectedNode& node : found.nodes) {
        if (node.name == name) nodes.push_back(&node);
      }
    }
    EXPECT_EQ(nodes.size(), names.size());
    return ExtractOnnx(found, opened, nodes);
  }

 private:
  onnx::ModelProto model_;
};

std::string Refusal(const absl::StatusOr<std::string>& made) {
  EXPECT_EQ(made.status().code(), absl::StatusCode::kFailedPrecondition) << made.status();
  return std::string(made.status().message());
}

std::vector<std::string> NodesOf(const std::string& bytes) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(bytes));
  std::vector<std::string> nodes;
  for (const auto& node : model.graph().node()) {
    nodes.push_back(node.op_type() == "RNN" ? node.name() : node.op_type());
  }
  return nodes;
}

TEST(OnnxChain, PartOfAChainInItsOrder) {
  Layers layers;
  layers.Add("b", "a.y");
  layers.Add("c", "b.y");
  layers.Add("d", "c.y");
  const auto made = layers.Extract({"c", "b"});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(NodesOf(*made), ElementsAre("b", "Squeeze", "c"));
  const auto loaded = LoadOnnxBytes(*made);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->layers.size(), 2U);
  EXPECT_EQ(loaded->pipeline, nullptr);
}

TEST(OnnxChain, WhatLiesBetweenGoesAlong) {
  Layers layers;
  AppendNode(layers.graph(), "Add", {"x", "a.y"}, "sum");
  layers.Add("b", "sum");
  const auto made = layers.Extract({"a", "b"});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(NodesOf(*made), ElementsAre("a", "Squeeze", "Add", "b"));
  EXPECT_NE(LoadOnnxBytes(*made)->pipeline, nullptr);
}

TEST(OnnxChain, WhatTheFileCallsItsValuesHidesNothing) {
  Layers layers;
  for (auto& node : *layers.graph().mutable_node()) {  // as the operator and the extracted file call theirs
    for (std::string& name : *node.mutable_output()) name = name == "a.y" ? "X" : name == "a.raw" ? "Y" : name;
    for (std::string& name : *node.mutable_input()) name = name == "a.raw" ? "Y" : name;
  }
  layers.Add("b", "X");
  const auto made = layers.Extract({"a", "b"});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(LoadOnnxBytes(*made)->layers.size(), 2U);
}

TEST(OnnxChain, NodesThatDoNotFeedOneAnotherAreRefusedByName) {
  Layers layers;
  layers.Add("b", "a.y");
  layers.Add("c", "b.y");
  layers.Add("other", "a.y");
  layers.Add("final", "a.h");
  AppendNode(layers.graph(), "Add", {"b.y", "other.y"}, "both");
  layers.Add("join", "both");
  EXPECT_THAT(Refusal(layers.Extract({"a", "c"})),
              HasSubstr("RNN \"c\" and RNN \"a\" do not feed one another: neither takes what another of the nodes"));
  EXPECT_THAT(Refusal(layers.Extract({"b", "other"})), HasSubstr("do not feed one another"));
  EXPECT_THAT(Refusal(layers.Extract({"a", "b", "other"})),
              HasSubstr("RNN \"other\" and RNN \"b\" both take what RNN \"a\" gives"));
  EXPECT_THAT(Refusal(layers.Extract({"a", "final"})), HasSubstr("RNN \"final\" takes a final state of RNN \"a\""));
  EXPECT_THAT(Refusal(layers.Extract({"b", "other", "join"})), HasSubstr("RNN \"join\" takes what RNN"));
  EXPECT_THAT(Refusal(layers.Extract({"b", "join"})),
              HasSubstr("RNN \"join\" takes not only what RNN \"b\" gives, but what"));
  EXPECT_THAT(Refusal(layers.Extract({"a", "a"})), HasSubstr("RNN \"a\" is named twice"));
}

TEST(OnnxChain, WhatIsBetweenHasToBeServable) {
  Layers layers;
  AppendNode(layers.graph(), "Attention", {"a.y"}, "attended").set_name("the attention");
  layers.Add("b", "attended");
  EXPECT_THAT(Refusal(layers.Extract({"a", "b"})), HasSubstr("the attention"));
}

TEST(OnnxChain, OneLengthForAllLayers) {
  Layers layers;
  onnx::NodeProto& node = layers.Add("b", "a.y");
  node.add_input("");
  node.add_input("lengths");
  layers.graph().add_input()->set_name("lengths");
  EXPECT_THAT(Refusal(layers.Extract({"a", "b"})),
              HasSubstr("RNN \"b\" takes its sequence_lens from graph input \"lengths\", but RNN \"a\" from none"));
}

TEST(OnnxChain, NodesOfDifferentGraphs) {
  Layers layers;
  onnx::NodeProto& chooser = AppendNode(layers.graph(), "If", {"x"}, "chosen");
  onnx::GraphProto& branch = *AddAttribute(chooser, "then_branch", onnx::AttributeProto::GRAPH).mutable_g();
  onnx::NodeProto& inner = AppendNode(branch, "RNN", {"a.y", "w", "w"}, "inner.y");
  inner.set_name("inner");
  EXPECT_THAT(Refusal(layers.Extract({"a", "inner"})), HasSubstr("lie in different graphs of the file"));
}

TEST(OnnxChain, NodesOfOneBranch) {
  Layers layers;
  onnx::NodeProto& chooser = AppendNode(layers.graph(), "If", {"x"}, "chosen");
  onnx::GraphProto& branch = *AddAttribute(chooser, "then_branch", onnx::AttributeProto::GRAPH).mutable_g();
  AppendNode(branch, "RNN", {"a.y", "w", "w"}, "one.raw").set_name("one");
  AppendNode(branch, "Squeeze", {"one.raw", "axis"}, "one.y");
  AppendNode(branch, "RNN", {"one.y", "w", "w"}, "two.raw").set_name("two");
  const auto made = layers.Extract({"one", "two"});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT(NodesOf(*made), ElementsAre("one", "Squeeze", "two"));
}

}  // namespace
}  // namespace rnnserve
