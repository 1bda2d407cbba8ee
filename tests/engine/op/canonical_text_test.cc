// SPDX-License-Identifier: Apache-2.0
// Fingerprints of stored models hang on this text: a change of a line here breaks them.
#include <gtest/gtest.h>

#include <set>

#include "tests/engine/op/example_operator.h"

namespace rnnserve {
namespace {

std::string Text(const Example& example) { return Resolve(example).value().CanonicalText(); }

TEST(CanonicalTextTest, IsFixed) {
  Example example = OnnxExample("GRU", 14);
  example.op.attributes["activations"] = std::vector<std::string>{"HardSigmoid", "Tanh"};
  example.op.attributes["clip"] = 0.5f;
  example.op.attributes["linear_before_reset"] = int64_t{1};
  EXPECT_EQ(Text(example),
            "rnnserve operator 1\n"
            "operator GRU-14\n"
            "direction forward\n"
            "data_type float32\n"
            "sizes 3 2\n"
            "bias 1\n"
            "peephole 0\n"
            "layout 0\n"
            "activation HardSigmoid 0.20000000298023224 0.5\n"
            "activation Tanh 0 0\n"
            "clip 0.5\n"
            "input_forget 0\n"
            "linear_before_reset 1\n"
            "y_by_default 1\n");
}

TEST(CanonicalTextTest, EqualOperatorsInOtherWordsGiveEqualText) {
  Example example = OnnxExample("LSTM", 14);
  const std::string text = Text(example);
  example.op.domain = "ai.onnx";
  example.op.version.reset();
  example.op.opset = 20;
  example.op.attributes = {{"hidden_size", int64_t{2}},
                           {"direction", std::string("forward")},
                           {"layout", int64_t{0}},
                           {"input_forget", int64_t{0}},
                           {"activations", std::vector<std::string>{"SIGMOID", "tanh", "Tanh"}},
                           {"clip", std::numeric_limits<float>::infinity()}};
  EXPECT_EQ(Text(example), text);
}

TEST(CanonicalTextTest, EveryDifferenceShows) {
  std::set<std::string> texts;
  const auto add = [&](const Example& example) { EXPECT_TRUE(texts.insert(Text(example)).second) << Text(example); };
  const Example base = OnnxExample("LSTM", 14);
  add(base);
  const std::pair<const char*, AttributeValue> changes[] = {
      {"clip", 2.0f},
      {"direction", std::string("reverse")},
      {"input_forget", int64_t{1}},
      {"layout", int64_t{1}},
      {"activations", std::vector<std::string>{"Sigmoid", "Tanh", "Relu"}},
      {"activations", std::vector<std::string>{"HardSigmoid", "Tanh", "Tanh"}},
  };
  for (const auto& [name, value] : changes) {
    Example example = base;
    example.op.attributes[name] = value;
    add(example);
    if (std::string(name) == "activations" && std::get<std::vector<std::string>>(value)[0] == "HardSigmoid") {
      example.op.attributes["activation_alpha"] = std::vector<float>{0.25f};
      add(example);
      example.op.attributes["activation_beta"] = std::vector<float>{0.25f};
      add(example);
    }
  }
  for (const char* name : {"B", "P"}) {
    Example example = base;
    example.Drop(name);
    add(example);
  }
  Example wider = base;
  wider.PutFilled("W", {1, 8, 4});
  add(wider);
  add(OnnxExample("LSTM", 7));
  add(OnnxExample("GRU", 14));
  Example gru = OnnxExample("GRU", 14);
  gru.op.attributes["linear_before_reset"] = int64_t{1};
  add(gru);
  add(OnnxExample("GRU", 3));
  Example sequence = OnnxExample("GRU", 3);
  sequence.op.attributes["output_sequence"] = int64_t{1};
  add(sequence);
  add(OpenVinoExample("LSTMSequence", 1));
  add(OpenVinoExample("LSTMSequence", 5));
}

}  // namespace
}  // namespace rnnserve
