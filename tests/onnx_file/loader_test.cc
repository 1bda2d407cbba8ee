// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "engine/op/op_spec.h"
#include "tests/onnx_file/onnx_fixture.h"

namespace rnnserve::loader_of_files {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<OnnxOperator> LoadBytes(const TemporaryFolder& folder, const std::string& bytes,
                                       const OnnxLimits& limits = {}) {
  folder.Write("model.onnx", bytes);
  return LoadLayer(Folder::Open(folder.path()).value(), limits);
}

absl::StatusOr<OnnxOperator> Load(const onnx::ModelProto& model, const OnnxLimits& limits = {}) {
  const TemporaryFolder folder;
  return LoadBytes(folder, model.SerializeAsString(), limits);
}

std::string Refusal(const onnx::ModelProto& model) {
  const absl::Status status = Load(model).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  return std::string(status.message());
}

onnx::NodeProto& Node(onnx::ModelProto& model) { return *model.mutable_graph()->mutable_node(0); }
onnx::TensorProto& Initializer(onnx::ModelProto& model, int index) {
  return *model.mutable_graph()->mutable_initializer(index);
}

std::vector<std::string> Names(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

std::vector<float> Floats(const TensorView& view) {
  std::vector<float> values(view.data.size() / sizeof(float));
  std::memcpy(values.data(), view.data.data(), view.data.size());
  return values;
}

TEST(OnnxLoader, AllOperatorsAtAllOpsets) {
  for (const std::string op_type : {"LSTM", "GRU", "RNN"}) {
    for (const int64_t opset : {1, 3, 7, 13, 14, 17, 22}) {
      for (const int64_t directions : {1, 2}) {
        const auto loaded = Load(SmallModel(op_type, opset, directions));
        ASSERT_TRUE(loaded.ok()) << op_type << opset << loaded.status();
        const auto spec = ResolveOperator(loaded->op, loaded->weights);
        ASSERT_TRUE(spec.ok()) << op_type << opset << spec.status();
        EXPECT_EQ(spec->op_type, op_type);
        EXPECT_EQ(spec->directions(), directions);
        EXPECT_EQ(spec->input_size, 2);
        const int64_t since = opset >= 22 ? 22 : opset >= 14 ? 14 : opset >= 7 ? 7 : op_type == "GRU" ? opset : 1;
        EXPECT_EQ(spec->version, since);
      }
    }
  }
}

TEST(OnnxLoader, WeightsAreKnownByPosition) {
  const auto loaded = Load(SmallModel("RNN", 14));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_THAT(Names(loaded->weights), ElementsAre("W", "R", "B"));
  EXPECT_THAT(Floats(loaded->weights[0].tensor), ElementsAre(0.5, 0.75));
  EXPECT_THAT(loaded->weights[0].tensor.shape, ElementsAre(1, 1, 2));
  EXPECT_THAT(Floats(loaded->weights[1].tensor), ElementsAre(1));
  EXPECT_THAT(Floats(loaded->weights[2].tensor), ElementsAre(2, 2.25));
}

TEST(OnnxLoader, PeepholesAndAbsentInputs) {
  onnx::ModelProto model = SmallModel("LSTM", 14);
  *model.mutable_graph()->add_initializer() = FloatTensor("peep", {1, 3});
  onnx::NodeProto& node = Node(model);
  node.set_input(3, "");
  node.set_input(5, "");
  node.add_input("");
  node.add_input("peep");
  const auto loaded = Load(model);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(Names(loaded->weights), ElementsAre("W", "R", "P"));
}

TEST(OnnxLoader, AttributesOfEveryKind) {
  onnx::ModelProto model = SmallModel("LSTM", 14);
  onnx::NodeProto& node = Node(model);
  AddAttribute(node, "clip", onnx::AttributeProto::FLOAT).set_f(1.5F);
  AddAttribute(node, "direction", onnx::AttributeProto::STRING).set_s("reverse");
  auto& activations = AddAttribute(node, "activations", onnx::AttributeProto::STRINGS);
  for (const char* name : {"HardSigmoid", "Tanh", "Relu"}) activations.add_strings(name);
  AddAttribute(node, "activation_alpha", onnx::AttributeProto::FLOATS).add_floats(0.25F);
  AddAttribute(node, "extra", onnx::AttributeProto::INTS).add_ints(7);
  const auto loaded = Load(model);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto& attributes = loaded->op.attributes;
  EXPECT_EQ(std::get<int64_t>(attributes.at("hidden_size")), 1);
  EXPECT_EQ(std::get<float>(attributes.at("clip")), 1.5F);
  EXPECT_EQ(std::get<std::string>(attributes.at("direction")), "reverse");
  EXPECT_THAT(std::get<std::vector<std::string>>(attributes.at("activations")),
              ElementsAre("HardSigmoid", "Tanh", "Relu"));
  EXPECT_THAT(std::get<std::vector<float>>(attributes.at("activation_alpha")), ElementsAre(0.25F));
  EXPECT_THAT(std::get<std::vector<int64_t>>(attributes.at("extra")), ElementsAre(7));
}

TEST(OnnxLoader, BadAttributes) {
  onnx::ModelProto model = SmallModel("LSTM", 14);
  AddAttribute(Node(model), "body", onnx::AttributeProto::GRAPH);
  EXPECT_THAT(Refusal(model), AllOf(HasSubstr("\"body\""), HasSubstr("GRAPH")));
  model = SmallModel("LSTM", 14);
  AddAttribute(Node(model), "hidden_size", onnx::AttributeProto::INT).set_i(2);
  EXPECT_THAT(Refusal(model), HasSubstr("attribute \"hidden_size\" is given twice"));
}

TEST(OnnxLoader, EveryPlaceForElements) {
  onnx::ModelProto model = SmallModel("RNN", 22);
  onnx::TensorProto& w = Initializer(model, 0);
  const std::string raw = RawBytes(w);
  w.clear_float_data();
  w.set_raw_data(raw);
  auto loaded = Load(model);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(Floats(loaded->weights[0].tensor), ElementsAre(0.5, 0.75));

  for (const auto type : {onnx::TensorProto::FLOAT16, onnx::TensorProto::BFLOAT16}) {
    w.clear_raw_data();
    w.clear_int32_data();
    w.set_data_type(type);
    w.add_int32_data(0x3c00);
    w.add_int32_data(0xbf80);
    loaded = Load(model);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(static_cast<int>(loaded->weights[0].tensor.type), static_cast<int>(type));
    EXPECT_THAT(loaded->weights[0].tensor.data,
                ElementsAre(std::byte{0}, std::byte{0x3c}, std::byte{0x80}, std::byte{0xbf}));
  }
  w.set_int32_data(0, 0x10000);
  EXPECT_THAT(Refusal(model), HasSubstr("65536 in int32_data"));

  w.clear_int32_data();
  w.set_data_type(onnx::TensorProto::DOUBLE);
  w.add_double_data(1);
  w.add_double_data(-2);
  loaded = Load(model);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->weights[0].tensor.type, DataType::kDouble);
  EXPECT_EQ(loaded->weights[0].tensor.data.size(), 16U);
}

TEST(OnnxLoader, WrongElements) {
  onnx::ModelProto model = SmallModel("RNN", 14);
  Initializer(model, 0).set_raw_data("12345678");
  EXPECT_THAT(Refusal(model), AllOf(HasSubstr("raw_data"), HasSubstr("float_data")));
  Initializer(model, 0).clear_float_data();
  Initializer(model, 0).set_raw_data("1234567");
  EXPECT_THAT(Refusal(model), AllOf(HasSubstr("has 7 bytes"), HasSubstr("[1, 1, 2]"), HasSubstr("need 8"),
                                    HasSubstr("W (input 1, \"onnx::W_12\")")));
  Initializer(model, 0).clear_raw_data();
  EXPECT_THAT(Refusal(model), HasSubstr("no list"));
  Initializer(model, 0).add_float_data(1);
  EXPECT_THAT(Refusal(model), HasSubstr("has 1 elements"));
  Initializer(model, 0).clear_float_data();
  Initializer(model, 0).add_double_data(1);
  EXPECT_THAT(Refusal(model), HasSubstr("double_data"));
  const std::pair<int, std::string> types[] = {
      {0, "UNDEFINED"}, {8, "STRING"}, {14, "COMPLEX64"}, {-1, "type -1"}, {1000, "type 1000"}};
  for (const auto& [type, name] : types) {
    Initializer(model, 0).set_data_type(type);
    EXPECT_THAT(Refusal(model), HasSubstr("has data_type " + name + ", but FLOAT,"));
  }
  Initializer(model, 0).clear_double_data();
  Initializer(model, 0).set_data_type(onnx::TensorProto::INT64);
  for (const int value : {1, 2}) Initializer(model, 0).add_int64_data(value);
  EXPECT_THAT(Refusal(model), AllOf(HasSubstr("W (input 1"), HasSubstr("has data_type INT64")));
  model = SmallModel("RNN", 14);
  Initializer(model, 0).mutable_segment();
  EXPECT_THAT(Refusal(model), HasSubstr("segments"));
}

TEST(OnnxLoader, HugeShapesWithoutData) {
  for (const std::vector<int64_t>& dims : std::vector<std::vector<int64_t>>{
           {int64_t{1} << 62}, {int64_t{1} << 62, 4}, {int64_t{1} << 32, int64_t{1} << 32}, {-1}, {1, 1, -2}}) {
    onnx::ModelProto model = SmallModel("RNN", 14);
    onnx::TensorProto& w = Initializer(model, 0);
    w.clear_dims();
    for (const int64_t dim : dims) w.add_dims(dim);
    EXPECT_THAT(Refusal(model), HasSubstr("shape"));
    w.set_data_location(onnx::TensorProto::EXTERNAL);
    EXPECT_THAT(Refusal(model), HasSubstr("shape"));
  }
  onnx::ModelProto model = SmallModel("RNN", 14);
  Initializer(model, 0).set_dims(2, int64_t{1} << 30);
  EXPECT_THAT(Refusal(model), HasSubstr("has 2 elements in float_data"));
  for (int k = 0; k < 6; ++k) Initializer(model, 0).add_dims(1);
  EXPECT_THAT(Refusal(model), HasSubstr("9 dimensions"));
}

TEST(OnnxLoader, Limits) {
  const onnx::ModelProto model = SmallModel("RNN", 14);
  EXPECT_TRUE(Load(model, {.tensor_bytes = 8 + 4 + 8}).ok());
  EXPECT_THAT(std::string(Load(model, {.tensor_bytes = 8 + 4 + 7}).status().message()),
              HasSubstr("at most 7 are left"));
  const auto size = static_cast<int64_t>(model.ByteSizeLong());
  EXPECT_TRUE(Load(model, {.file_bytes = size}).ok());
  EXPECT_THAT(std::string(Load(model, {.file_bytes = size - 1}).status().message()), HasSubstr("above the limit"));
}

TEST(OnnxLoader, ConstantAndIdentityNodesAreLookedThrough) {
  onnx::ModelProto model = SmallModel("GRU", 14);
  onnx::GraphProto& graph = *model.mutable_graph();
  onnx::NodeProto& constant = *graph.add_node();
  constant.set_op_type("Constant");
  constant.add_output("constant.R");
  *AddAttribute(constant, "value", onnx::AttributeProto::TENSOR).mutable_t() = FloatTensor("", {1, 3, 1}, 9);
  for (const auto& [from, to] : {std::pair("constant.R", "R.1"), {"R.1", "R.2"}, {"input.1", "X.1"}}) {
    onnx::NodeProto& identity = *graph.add_node();
    identity.set_op_type("Identity");
    identity.add_input(from);
    identity.add_output(to);
  }
  graph.mutable_node(0)->set_input(0, "X.1");
  graph.mutable_node(0)->set_input(2, "R.2");
  const auto loaded = Load(model);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(Floats(loaded->weights[1].tensor), ElementsAre(9, 9.25, 9.5));

  constant.mutable_attribute(0)->set_name("value_float");
  EXPECT_THAT(Refusal(model), HasSubstr("\"value\""));
}

TEST(OnnxLoader, ARingOfIdentityNodes) {
  onnx::ModelProto model = SmallModel("GRU", 14);
  for (const auto& [from, to] : {std::pair("a", "b"), {"b", "a"}}) {
    onnx::NodeProto& identity = *model.mutable_graph()->add_node();
    identity.set_op_type("Identity");
    identity.add_input(from);
    identity.add_output(to);
  }
  Node(model).set_input(2, "a");
  EXPECT_THAT(Refusal(model), AllOf(HasSubstr("R (input 2, \"a\")"), HasSubstr("cycle")));
}

TEST(OnnxLoader, OtherNodesAreNamed) {
  onnx::ModelProto model = SmallModel("LSTM", 14);
  onnx::NodeProto& other = *model.mutable_graph()->add_node();
  other.set_op_type("MatMul");
  other.set_name("/head/MatMul");
  EXPECT_THAT(Refusal(model), AllOf(HasSubstr("node 1"), HasSubstr("MatMul"), HasSubstr("/head/MatMul")));
  other.set_op_type("LSTM");
  EXPECT_THAT(Refusal(model), AllOf(HasSubstr("another recurrent node"), HasSubstr("/head/MatMul")));
  other.set_domain("com.example");
  EXPECT_THAT(Refusal(model), HasSubstr("domain \"com.example\""));
  other.set_domain("ai.onnx");
  EXPECT_THAT(Refusal(model), HasSubstr("another recurrent node"));
  other.set_op_type("Bad\n\xff");
  EXPECT_THAT(Refusal(model), HasSubstr("Bad\\n\\xff"));
  model.mutable_graph()->clear_node();
  EXPECT_THAT(Refusal(model), HasSubstr("no LSTM, GRU or RNN"));
}

TEST(OnnxLoader, Opsets) {
  onnx::ModelProto model = SmallModel("LSTM", 14);
  model.add_opset_import()->set_domain("com.example");
  EXPECT_TRUE(Load(model).ok());
  auto& twin = *model.add_opset_import();
  twin.set_domain("ai.onnx");
  twin.set_version(14);
  EXPECT_TRUE(Load(model).ok());
  twin.set_version(15);
  EXPECT_THAT(Refusal(model), HasSubstr("both opset 14 and 15"));
  model.clear_opset_import();
  EXPECT_THAT(Refusal(model), HasSubstr("no opset_import"));
}

TEST(OnnxLoader, MissingAndMisplacedInputs) {
  onnx::ModelProto model = SmallModel("LSTM", 14);
  Node(model).set_input(0, "");
  EXPECT_THAT(Refusal(model), HasSubstr("no input X"));
  model = SmallModel("LSTM", 14);
  Node(model).set_input(1, "nowhere");
  EXPECT_THAT(Refusal(model), HasSubstr("W (input 1, \"nowhere\") is neither"));
  model = SmallModel("LSTM", 14);
  model.mutable_graph()->add_input()->set_name("given");
  Node(model).set_input(1, "given");
  EXPECT_THAT(Refusal(model), HasSubstr("W (input 1, \"given\") is a graph input"));
  model = SmallModel("LSTM", 14);
  Node(model).set_input(0, "onnx::W_12");
  EXPECT_THAT(Refusal(model), HasSubstr("X (input 0, \"onnx::W_12\") is fixed"));
  model = SmallModel("LSTM", 14);
  Node(model).set_input(4, "onnx::W_12");
  EXPECT_THAT(Refusal(model), HasSubstr("sequence_lens (input 4"));
  model = SmallModel("LSTM", 14);
  Node(model).set_input(5, "input.1");
  EXPECT_THAT(Refusal(model), HasSubstr("is both X and initial_h"));
  model = SmallModel("GRU", 14);
  Node(model).add_input("input.1");
  EXPECT_THAT(Refusal(model), HasSubstr("has 7 inputs, but the operator has 6"));
  model = SmallModel("GRU", 14);
  *model.mutable_graph()->add_initializer() = FloatTensor("onnx::W_12", {1});
  EXPECT_THAT(Refusal(model), HasSubstr("defines \"onnx::W_12\" twice"));
  model = SmallModel("GRU", 14);
  model.mutable_graph()->add_sparse_initializer();
  EXPECT_THAT(Refusal(model), HasSubstr("sparse"));
  model.clear_graph();
  EXPECT_THAT(Refusal(model), HasSubstr("no graph"));
}

TEST(OnnxLoader, AFixedInitialState) {
  onnx::ModelProto model = SmallModel("GRU", 14);
  onnx::TensorProto& zeros = *model.mutable_graph()->add_initializer();
  zeros = FloatTensor("h0", {1, 1, 1}, 0);  // also a graph input, as files below IR 4 have it
  EXPECT_TRUE(Load(model).ok());
  zeros.set_float_data(0, 1);
  EXPECT_THAT(Refusal(model), AllOf(HasSubstr("initial_h (input 5"), HasSubstr("not zero")));
}

TEST(OnnxLoader, MissingFile) {
  const TemporaryFolder folder;
  EXPECT_EQ(LoadLayer(Folder::Open(folder.path()).value()).status().code(), absl::StatusCode::kNotFound);
}

TEST(OnnxLoader, CutOffAnywhere) {
  const TemporaryFolder folder;
  const std::string whole = SmallModel("LSTM", 17, 2).SerializeAsString();
  ASSERT_TRUE(LoadBytes(folder, whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(LoadBytes(folder, whole.substr(0, size)).ok()) << size << " of " << whole.size();
  }
}

// Most of these load no more, some still do; none may crash (the sanitizers watch).
TEST(OnnxLoader, AnyByteChanged) {
  const TemporaryFolder folder;
  const std::string whole = SmallModel("GRU", 17).SerializeAsString();
  int refused = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ change);
      const auto loaded = LoadBytes(folder, changed);
      if (!loaded.ok() || !ResolveOperator(loaded->op, loaded->weights).ok()) ++refused;
    }
  }
  EXPECT_GT(refused, static_cast<int>(whole.size()));
}

TEST(OnnxLoader, Garbage) {
  const TemporaryFolder folder;
  for (const std::string& bytes : {std::string("not a model"), std::string(1000, '\xff'), std::string(1000, '\0'),
                                   std::string(100000, '\x0b') /* groups in groups */}) {
    EXPECT_EQ(LoadBytes(folder, bytes).status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

}  // namespace
}  // namespace rnnserve::loader_of_files
