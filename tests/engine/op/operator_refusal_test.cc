// SPDX-License-Identifier: Apache-2.0
// Every refusal of an operator's words: field path and text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/field_error.h"
#include "tests/engine/op/example_operator.h"
#include "tests/engine/op/refusal.h"

namespace rnnserve::operator_refusal {
namespace {

using Names = std::vector<std::string>;
using Floats = std::vector<float>;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::string Attribute(const std::string& name) { return "operator.attributes[" + name + "]"; }

std::function<void(Example&)> Set(const std::string& name, AttributeValue value) {
  return [=](Example& example) { example.op.attributes[name] = value; };
}

const std::vector<Refusal>& Refusals() {
  static const auto* const refusals = new std::vector<Refusal>{
      // Which operator.
      {"LSTM", 14, [](Example& e) { e.op.domain = "com.microsoft"; }, "operator.domain",
       "domain \"com.microsoft\" is not served: use \"\" or \"ai.onnx\""},
      {"LSTM", 14, [](Example& e) { e.op.op_type = "lstm"; }, "operator.op_type",
       "op_type \"lstm\" is not served: expected LSTM, GRU or RNN"},
      {"LSTM", 14, [](Example& e) { e.op.op_type = ""; }, "operator.op_type", "op_type \"\" is not served"},
      {"LSTM", 14, [](Example& e) { e.op.op_type = "LSTMSequence"; }, "operator.op_type",
       "LSTMSequence is an OpenVINO operator: set domain to \"openvino\""},
      {"LSTM", 14, [](Example& e) { e.op.domain = "openvino"; }, "operator.op_type", "LSTM is an ONNX operator"},
      {"LSTM", 14, [](Example& e) { e.op.op_type = std::string(100000, 'x') + "\n"; }, "operator.op_type", "xxx...\""},
      {"LSTM", 14, [](Example& e) { e.op.version.reset(); }, "operator.version",
       "neither version nor opset is given: name exactly one"},
      {"LSTM", 14, [](Example& e) { e.op.opset = 14; }, "operator.version",
       "version 14 and opset 14 are both given: keep exactly one"},
      {"LSTM", 3, [](Example&) {}, "operator.version", "LSTM-3 does not exist: LSTM has the versions 1, 7, 14, 22"},
      // Attributes: names and types.
      {"LSTM", 14, Set("cilp", 1.0f), Attribute("cilp"), "LSTM-14 has no attribute \"cilp\"; it takes activation_alpha"},
      {"LSTM", 14, Set(std::string(1000, 'a'), 1.0f), Attribute(std::string(64, 'a') + "..."), "has no attribute"},
      {"LSTM", 14, Set("a\x01\"b", 1.0f), Attribute("a\\x01\\\"b"), "has no attribute"},
      {"LSTM", 14, Set("", 1.0f), Attribute(""), "has no attribute \"\""},
      {"LSTM", 14, Set("Clip", 1.0f), Attribute("Clip"), "has no attribute \"Clip\""},
      {"RNN", 14, Set("input_forget", int64_t{1}), Attribute("input_forget"), "RNN-14 has no attribute"},
      {"GRU", 14, Set("input_forget", int64_t{1}), Attribute("input_forget"), "GRU-14 has no attribute"},
      {"LSTM", 14, Set("linear_before_reset", int64_t{1}), Attribute("linear_before_reset"), "LSTM-14 has no attribute"},
      {"GRU", 1, Set("linear_before_reset", int64_t{0}), Attribute("linear_before_reset"), "from version 3 on"},
      {"LSTM", 7, Set("layout", int64_t{0}), Attribute("layout"),
       "LSTM-7 has no attribute layout, which exists from version 14 on only"},
      {"GRU", 1, Set("layout", int64_t{0}), Attribute("layout"), "from version 14 on"},
      {"RNN", 1, Set("layout", int64_t{1}), Attribute("layout"), "from version 14 on"},
      {"LSTM", 7, Set("output_sequence", int64_t{1}), Attribute("output_sequence"), "up to version 6"},
      {"GRU", 7, Set("output_sequence", int64_t{1}), Attribute("output_sequence"), "up to version 6"},
      {"RNN", 22, Set("output_sequence", int64_t{1}), Attribute("output_sequence"), "up to version 6"},
      {"LSTM", 14, Set("hidden_size", 2.0f), Attribute("hidden_size"),
       "hidden_size of LSTM-14 is an int, but a float was given"},
      {"LSTM", 14, Set("layout", 0.0f), Attribute("layout"), "is an int, but a float"},
      {"LSTM", 14, Set("direction", int64_t{0}), Attribute("direction"), "is a string, but an int"},
      {"LSTM", 14, Set("direction", Names{"forward"}), Attribute("direction"), "is a string, but a list of strings"},
      {"LSTM", 14, Set("activations", std::string("Tanh")), Attribute("activations"),
       "is a list of strings, but a string"},
      {"LSTM", 14, Set("activations", Floats{1}), Attribute("activations"), "is a list of strings, but a list of floats"},
      {"LSTM", 14, Set("activation_alpha", 1.0f), Attribute("activation_alpha"), "is a list of floats, but a float"},
      {"LSTM", 14, Set("activation_beta", Names{"1"}), Attribute("activation_beta"), "is a list of floats"},
      {"LSTM", 14, Set("clip", std::string("1")), Attribute("clip"), "is a float, but a string"},
      {"LSTM", 14, Set("clip", Floats{1}), Attribute("clip"), "is a float, but a list of floats"},
      {"LSTM", 14, Set("input_forget", 1.0f), Attribute("input_forget"), "is an int, but a float"},
      // Values.
      {"LSTM", 14, Set("hidden_size", int64_t{0}), Attribute("hidden_size"), "hidden_size is 0; expected a positive"},
      {"LSTM", 14, Set("hidden_size", int64_t{-1}), Attribute("hidden_size"), "hidden_size is -1"},
      {"LSTM", 14, Set("hidden_size", std::numeric_limits<int64_t>::max()), Attribute("hidden_size"),
       "but the last axis of R (shape [1, 8, 2]) is 2"},
      {"GRU", 7, Set("hidden_size", int64_t{3}), Attribute("hidden_size"), "hidden_size is 3, but the last axis of R"},
      {"LSTM", 14, Set("direction", std::string("Forward")), Attribute("direction"),
       "direction is \"Forward\"; expected forward, reverse or bidirectional, in lower case"},
      {"LSTM", 14, Set("direction", std::string("")), Attribute("direction"), "direction is \"\""},
      {"LSTM", 1, Set("direction", std::string("foward")), Attribute("direction"), "direction is \"foward\""},
      {"GRU", 3, Set("direction", std::string("foward")), Attribute("direction"), "direction is \"foward\""},
      {"RNN", 1, Set("direction", std::string("foward")), Attribute("direction"), "direction is \"foward\""},
      {"LSTM", 14, Set("layout", int64_t{2}), Attribute("layout"), "layout is 2; expected 0 or 1"},
      {"LSTM", 14, Set("layout", int64_t{-1}), Attribute("layout"), "layout is -1"},
      {"LSTM", 14, Set("clip", 0.0f), Attribute("clip"), "clip is 0; expected a positive number"},
      {"LSTM", 14, Set("clip", -0.0f), Attribute("clip"), "expected a positive number"},
      {"GRU", 14, Set("clip", -1.0f), Attribute("clip"), "clip is -1"},
      {"RNN", 14, Set("clip", -1.0f), Attribute("clip"), "clip is -1"},
      {"LSTM", 14, Set("clip", kNan), Attribute("clip"), "clip is nan"},
      {"LSTM", 14, Set("clip", -kInf), Attribute("clip"), "clip is -inf"},
      {"LSTM", 14, Set("clip", int64_t{0}), Attribute("clip"), "clip is 0"},
      // Activations.
      {"LSTM", 14, Set("activations", Names{"Sigmoid", "Tanh", "Tang"}), Attribute("activations"),
       "\"Tang\" is no activation function of LSTM-14; expected one of Relu, Tanh, Sigmoid, Affine, LeakyRelu, "
       "ThresholdedRelu, ScaledTanh, HardSigmoid, Elu, Softsign, Softplus"},
      {"LSTM", 14, Set("activations", Names{"Sigmoid", "Tanh"}), Attribute("activations"),
       "activations has 2 names, but LSTM-14 takes 3"},
      {"LSTM", 14, Set("activations", Names(6, "Tanh")), Attribute("activations"), "has 6 names, but LSTM-14 takes 3"},
      {"GRU", 14, Set("activations", Names{"Tanh"}), Attribute("activations"), "has 1 name, but GRU-14 takes 2"},
      {"GRU", 14, Set("activations", Names(3, "Tanh")), Attribute("activations"), "takes 2"},
      {"RNN", 14, Set("activations", Names(3, "Tanh")), Attribute("activations"), "has 3 names, but RNN-14 takes 1"},
      {"RNN", 14, Set("activations", Names{"Tanh", "nonsense"}), Attribute("activations"), "\"nonsense\" is no"},
      {"LSTM", 14, Set("activation_alpha", Floats{1}), Attribute("activation_alpha"),
       "activation_alpha has 1 value for 3 functions, of which 0 take an alpha"},
      {"LSTM", 14, Set("activation_alpha", Floats(4, 1)), Attribute("activation_alpha"), "has 4 values"},
      {"LSTM", 14,
       [](Example& e) {
         e.op.attributes["activations"] = Names{"Elu", "Tanh", "Tanh"};
         e.op.attributes["activation_alpha"] = Floats{1, 2};
       },
       Attribute("activation_alpha"), "give at most 1 (one for each that takes it) or 3 (one for each function)"},
      {"LSTM", 14,
       [](Example& e) {
         e.op.attributes["activations"] = Names{"HardSigmoid", "HardSigmoid", "Tanh"};
         e.op.attributes["activation_beta"] = Floats{1, 2, 3, 4};
       },
       Attribute("activation_beta"), "has 4 values for 3 functions, of which 2 take a beta"},
      {"RNN", 14,
       [](Example& e) {
         e.op.attributes["activations"] = Names{"Elu"};
         e.op.attributes["activation_alpha"] = Floats{kNan};
       },
       Attribute("activation_alpha"), "value 0 of activation_alpha is NaN"},
      // OpenVINO.
      {"LSTMSequence", 5, [](Example& e) { e.op.attributes.erase("hidden_size"); }, Attribute("hidden_size"),
       "LSTMSequence-5 requires the attribute hidden_size"},
      {"GRUSequence", 5, [](Example& e) { e.op.attributes.erase("direction"); }, Attribute("direction"), "requires"},
      {"LSTMSequence", 5, Set("hidden_size", int64_t{3}), Attribute("hidden_size"), "hidden_size is 3, but"},
      {"LSTMSequence", 5, Set("activation_alpha", Floats{1}), Attribute("activation_alpha"), "it takes activations, activations_alpha"},
      {"LSTM", 14, Set("activations_alpha", Floats{1}), Attribute("activations_alpha"), "has no attribute"},
      {"LSTMSequence", 5, Set("input_forget", int64_t{0}), Attribute("input_forget"), "has no attribute"},
      {"LSTMSequence", 1, Set("weights_format", std::string("fico")), Attribute("weights_format"), "has no attribute"},
      {"LSTMSequence", 5, Set("layout", int64_t{0}), Attribute("layout"), "has no attribute"},
      {"LSTMSequence", 5, Set("linear_before_reset", int64_t{0}), Attribute("linear_before_reset"), "has no attribute"},
      {"GRUSequence", 5, Set("linear_before_reset", int64_t{2}), Attribute("linear_before_reset"), "expected 0 or 1"},
      {"GRUSequence", 5, Set("clip", -1.0f), Attribute("clip"), "clip is -1; expected a positive number, or 0 for none"},
      {"GRUSequence", 5, Set("clip", kNan), Attribute("clip"), "clip is nan"},
      {"GRUSequence", 5, Set("activations", Names{"sigmoid", "elu"}), Attribute("activations"),
       "\"elu\" is no activation function of GRUSequence-5; expected one of Relu, Tanh, Sigmoid, HardSigmoid"},
      {"GRUSequence", 5, Set("activations", Names(4, "tanh")), Attribute("activations"), "has 4 names"},
      {"RNNSequence", 5, Set("activations", Names(2, "tanh")), Attribute("activations"), "has 2 names"},
      {"RNNSequence", 5, Set("activations_alpha", Floats(2, 1)), Attribute("activations_alpha"), "give at most 1"},
      {"RNNSequence", 5, Set("direction", std::string("backward")), Attribute("direction"), "direction is \"backward\""},
  };
  return *refusals;
}

TEST(OperatorRefusalTest, EveryRowIsRefusedWithItsFieldAndText) {
  ExpectRefusals(Refusals(), [](const Example& example) { return Resolve(example).status(); });
}

TEST(OperatorRefusalTest, BidirectionalNeedsNamesForBothDirections) {
  Example example = OnnxExample("GRU", 14);
  example.op.attributes["direction"] = std::string("bidirectional");
  example.op.attributes["activations"] = Names{"Sigmoid", "Tanh"};
  EXPECT_THAT(std::string(Resolve(example).status().message()),
              testing::HasSubstr("has 2 names, but GRU-14 with direction bidirectional takes 4"));
}

// Neighbours of refusals that are valid.
TEST(OperatorRefusalTest, WhatIsAllowed) {
  struct Row {
    std::string op_type;
    int64_t version;
    std::function<void(Example&)> change;
  };
  const Row rows[] = {
      {"GRU", 1, Set("direction", std::string("foward"))},
      {"GRU", 3, Set("linear_before_reset", int64_t{7})},
      {"LSTM", 14, Set("clip", kInf)},
      {"LSTM", 14, Set("clip", std::numeric_limits<float>::denorm_min())},
      {"LSTM", 1, Set("output_sequence", int64_t{1})},
      {"LSTM", 1, Set("input_forget", int64_t{1})},
      {"RNN", 1, Set("output_sequence", int64_t{0})},
      {"GRU", 1, Set("output_sequence", int64_t{1})},
      {"GRU", 3, Set("output_sequence", int64_t{1})},
      {"LSTM", 14, Set("layout", int64_t{0})},
      {"LSTM", 14, Set("hidden_size", int64_t{2})},
      {"LSTMSequence", 1, Set("clip", 0.0f)},
      {"LSTMSequence", 5, Set("clip", kInf)},
      {"LSTMSequence", 5, Set("direction", std::string("FORWARD"))},
      {"GRUSequence", 5, Set("linear_before_reset", int64_t{0})},
  };
  for (const Row& row : rows) {
    Example example = row.op_type.ends_with("Sequence") ? OpenVinoExample(row.op_type, row.version)
                                                        : OnnxExample(row.op_type, row.version);
    row.change(example);
    EXPECT_TRUE(Plan(example).ok()) << row.op_type << "-" << row.version << " " << Plan(example).status();
  }
}

}  // namespace
}  // namespace rnnserve::operator_refusal
