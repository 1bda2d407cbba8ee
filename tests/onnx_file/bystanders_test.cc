// SPDX-License-Identifier: Apache-2.0
// The nodes that exporters put around the recurrent one. Graphs are written as torch.onnx.export of PyTorch 1.13 does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "onnx_file/loader.h"
#include "tests/onnx_file/onnx_fixture.h"

namespace rnnserve {
namespace {

using testing::AllOf;
using testing::HasSubstr;

absl::StatusOr<OnnxOperator> Load(const onnx::ModelProto& model) {
  const TemporaryFolder folder;
  folder.Write("model.onnx", model.SerializeAsString());
  return LoadLayer(Folder::Open(folder.path()).value());
}

std::string Refusal(const onnx::ModelProto& model) { return std::string(Load(model).status().message()); }

onnx::NodeProto& AddNode(onnx::ModelProto& model, const std::string& op_type, const std::vector<std::string>& inputs,
                         const std::string& output) {
  onnx::NodeProto& node = *model.mutable_graph()->add_node();
  node.set_op_type(op_type);
  node.set_name("/" + op_type);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

onnx::TensorProto Ints(const std::vector<int64_t>& values) {
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  for (const int64_t value : values) tensor.add_int64_data(value);
  return tensor;
}

void AddConstant(onnx::ModelProto& model, const onnx::TensorProto& value, const std::string& output) {
  *AddAttribute(AddNode(model, "Constant", {}, output), "value", onnx::AttributeProto::TENSOR).mutable_t() = value;
}

// Shape, Gather, Unsqueeze, Concat: the value "shape", [1, N, 1].
void AddStateShape(onnx::ModelProto& model) {
  AddNode(model, "Shape", {"input.1"}, "sizes");
  AddConstant(model, Ints({1}), "one");
  AddNode(model, "Gather", {"sizes", "one"}, "n");
  AddNode(model, "Unsqueeze", {"n", "one"}, "n.1");
  AddNode(model, "Concat", {"one", "n.1", "one"}, "shape");
}

// The recurrent node without its place in the graph, so that it can go behind what it takes.
struct Started {
  onnx::ModelProto model;
  onnx::NodeProto node;
};

Started Start(const std::string& op_type) {
  Started started{SmallModel(op_type, 14), {}};
  started.node = started.model.graph().node(0);
  started.model.mutable_graph()->clear_node();
  return started;
}

TEST(OnnxBystanders, AZeroInitialStateOfAnyShape) {
  auto [model, node] = Start("LSTM");
  AddStateShape(model);
  AddNode(model, "ConstantOfShape", {"shape"}, "zeros");
  AddConstant(model, FloatTensor("", {1, 1, 1}, 0), "zero");
  AddNode(model, "Expand", {"zero", "shape"}, "zeros.1");
  node.set_input(5, "zeros");
  node.add_input("zeros.1");
  *model.mutable_graph()->add_node() = node;
  const auto loaded = Load(model);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->weights.size(), 3U);
}

// PyTorch writes nn.LSTM with proj_size as an LSTM of H = proj_size, with an initial_c of the cell's own size.
TEST(OnnxBystanders, AZeroInitialStateOfAnotherWidthIsRefused) {
  const auto refusal = [](const std::string& state, const std::string& op_type) {
    auto [model, node] = Start(op_type);
    AddStateShape(model);
    AddConstant(model, Ints({0}), "first");
    AddConstant(model, Ints({5}), "five");
    AddNode(model, "Concat", {"one", "n.1", "five"}, "wide");
    AddConstant(model, FloatTensor("", {}, 0), "zero");
    AddConstant(model, FloatTensor("", {1, 1, 5}, 0), "stored");
    AddNode(model, "ConstantOfShape", {"wide"}, "made");
    AddNode(model, "Expand", {"zero", "wide"}, "expanded");
    AddNode(model, "Slice", {"expanded", "first", "one", "first"}, "sliced");
    AddNode(model, "Identity", {"sliced"}, "handed on");
    auto& given = *model.mutable_graph()->add_input();
    given.set_name("given");
    auto& type = *given.mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx::TensorProto::FLOAT);
    for (const int64_t size : {1, 1, 5}) type.mutable_shape()->add_dim()->set_dim_value(size);
    if (op_type == "LSTM") node.add_input(state);
    node.set_input(5, op_type == "LSTM" ? "" : state);
    *model.mutable_graph()->add_node() = node;
    return Refusal(model);
  };
  for (const char* state : {"stored", "made", "expanded", "sliced", "handed on", "given"}) {
    EXPECT_THAT(refusal(state, "LSTM"),
                AllOf(HasSubstr("initial_c (input 6"), HasSubstr("has 5 numbers a row, but H is 1"),
                      HasSubstr("PyTorch: proj_size")));
    EXPECT_THAT(refusal(state, "GRU"), HasSubstr("initial_h (input 5"));
  }
}

TEST(OnnxBystanders, AnInitialStateOfOtherNumbersIsRefused) {
  for (const std::string op_type : {"ConstantOfShape", "Expand"}) {
    for (const float value : {0.0F, 1.0F}) {
      auto [model, node] = Start("GRU");
      AddStateShape(model);
      if (op_type == "Expand") {
        AddConstant(model, FloatTensor("", {1, 1, 1}, value), "value");
        AddNode(model, "Expand", {"value", "shape"}, "state");
      } else {
        auto& made = AddNode(model, "ConstantOfShape", {"shape"}, "state");
        *AddAttribute(made, "value", onnx::AttributeProto::TENSOR).mutable_t() = FloatTensor("", {1}, value);
      }
      node.set_input(5, "state");
      *model.mutable_graph()->add_node() = node;
      if (value == 0) {
        EXPECT_TRUE(Load(model).ok()) << op_type << Load(model).status();
      } else {
        EXPECT_THAT(Refusal(model), AllOf(HasSubstr("initial_h (input 5"), HasSubstr("not zero"))) << op_type;
      }
    }
  }
}

// The first axis of layout 1 are the rows, so one layer's part is no slice of it.
TEST(OnnxBystanders, AStateCutInLayout1IsRefused) {
  auto [model, node] = Start("GRU");
  AddConstant(model, Ints({0}), "first");
  AddConstant(model, Ints({1}), "end");
  AddNode(model, "Slice", {node.input(5), "first", "end"}, "cut");
  node.set_input(5, "cut");
  onnx::NodeProto& placed = *model.mutable_graph()->add_node() = node;
  EXPECT_TRUE(Load(model).ok()) << Load(model).status();
  AddAttribute(placed, "layout", onnx::AttributeProto::INT).set_i(1);
  EXPECT_THAT(Refusal(model), AllOf(HasSubstr("Slice"), HasSubstr("[N, D, H]"), HasSubstr("layout 1")));
}

TEST(OnnxBystanders, LengthsThroughACast) {
  auto [model, node] = Start("GRU");
  onnx::AttributeProto& to = AddAttribute(AddNode(model, "Cast", {"lengths"}, "cast"), "to", onnx::AttributeProto::INT);
  node.set_input(4, "cast");
  *model.mutable_graph()->add_node() = node;
  for (const auto type : {onnx::TensorProto::INT32, onnx::TensorProto::INT64}) {
    to.set_i(type);
    EXPECT_TRUE(Load(model).ok()) << Load(model).status();
  }
  // Makes other numbers of them.
  for (const auto type : {onnx::TensorProto::BOOL, onnx::TensorProto::INT8, onnx::TensorProto::FLOAT16}) {
    to.set_i(type);
    EXPECT_THAT(Refusal(model), AllOf(HasSubstr("input 4"), HasSubstr("Cast"), HasSubstr("graph input")));
  }
}

TEST(OnnxBystanders, OutputsArranged) {
  onnx::ModelProto model = SmallModel("GRU", 14);
  AddConstant(model, Ints({1}), "axes");
  AddNode(model, "Squeeze", {"out", "axes"}, "out.1");
  EXPECT_TRUE(Load(model).ok()) << Load(model).status();

  model = SmallModel("GRU", 14, 2);
  AddNode(model, "Transpose", {"out"}, "out.1");
  AddConstant(model, Ints({0, 0, -1}), "flat");
  AddNode(model, "Reshape", {"out.1", "flat"}, "out.2");
  EXPECT_TRUE(Load(model).ok()) << Load(model).status();
}

TEST(OnnxBystanders, WhatComputesFromTheOutputsIsRefused) {
  for (const std::string op_type : {"Gather", "Slice", "Cast", "MatMul"}) {
    onnx::ModelProto model = SmallModel("GRU", 14);
    AddNode(model, "Squeeze", {"h_n"}, "last");
    AddNode(model, op_type, {"last"}, "part");
    EXPECT_THAT(Refusal(model), AllOf(HasSubstr("node 2"), HasSubstr(op_type), HasSubstr("outputs"))) << op_type;
  }
}

TEST(OnnxBystanders, WhatIsComputedIsNamedWithTheWayOut) {
  auto [model, node] = Start("LSTM");
  AddNode(model, "Transpose", {"input.1"}, "x");
  AddNode(model, "Unsqueeze", {"weight_ih_l0"}, "w");
  AddNode(model, "Gather", {"input.1"}, "h");
  const auto with = [&](int index, const std::string& input) {
    onnx::ModelProto changed = model;
    onnx::NodeProto& placed = *changed.mutable_graph()->add_node();
    placed = node;
    placed.set_input(index, input);
    return Refusal(changed);
  };
  EXPECT_THAT(with(0, "x"), AllOf(HasSubstr("input 0"), HasSubstr("Transpose"), HasSubstr("batch_first")));
  EXPECT_THAT(with(1, "w"),
              AllOf(HasSubstr("W (input 1"), HasSubstr("Unsqueeze"), HasSubstr("do_constant_folding=True")));
  EXPECT_THAT(with(4, "h"), AllOf(HasSubstr("input 4"), HasSubstr("Gather"), HasSubstr("graph input")));
  EXPECT_THAT(with(5, "h"), AllOf(HasSubstr("input 5"), HasSubstr("Gather"), HasSubstr("zeros")));
}

TEST(OnnxBystanders, ANameGivenTwice) {
  onnx::ModelProto model = SmallModel("GRU", 14);
  AddNode(model, "Shape", {"input.1"}, "sizes");
  AddNode(model, "Shape", {"input.1"}, "sizes");
  EXPECT_THAT(Refusal(model), HasSubstr("defines \"sizes\" again"));
}

}  // namespace
}  // namespace rnnserve
