// SPDX-License-Identifier: Apache-2.0
// recurrent-operators.md, section 6: names, defaults and how the parameter lists are consumed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/field_error.h"
#include "tests/engine/op/example_operator.h"

namespace rnnserve {
namespace {

using Names = std::vector<std::string>;
using Floats = std::vector<float>;

double F(float value) { return static_cast<double>(value); }

OpSpec Resolved(const std::string& op_type, const Names& names, const Floats& alpha = {}, const Floats& beta = {}) {
  Example example = op_type.ends_with("Sequence") ? OpenVinoExample(op_type) : OnnxExample(op_type, 14);
  const std::string prefix = op_type.ends_with("Sequence") ? "activations_" : "activation_";
  if (!names.empty()) example.op.attributes["activations"] = names;
  if (!alpha.empty()) example.op.attributes[prefix + "alpha"] = alpha;
  if (!beta.empty()) example.op.attributes[prefix + "beta"] = beta;
  const bool both = op_type == "GRU" ? names.size() == 4 : op_type == "LSTM" ? names.size() == 6 : false;
  if (both) {
    example.op.attributes["direction"] = std::string("bidirectional");
    for (OwnedTensor& input : example.inputs) {
      if (input.name == "X" || input.name == "sequence_lens") continue;
      input.shape[0] = 2;
      std::vector<std::byte> once = input.bytes;
      input.bytes.insert(input.bytes.end(), once.begin(), once.end());
    }
  }
  absl::StatusOr<OpSpec> spec = Resolve(example);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *std::move(spec) : OpSpec{};
}

TEST(ActivationsTest, Defaults) {
  const Activation sigmoid = {ActivationKind::kSigmoid, 0, 0}, tanh = {ActivationKind::kTanh, 0, 0};
  EXPECT_THAT(Resolved("LSTM", {}).activations[0], testing::ElementsAre(sigmoid, tanh, tanh));
  EXPECT_THAT(Resolved("GRU", {}).activations[0], testing::ElementsAre(sigmoid, tanh, Activation{}));
  EXPECT_THAT(Resolved("RNN", {}).activations[0], testing::ElementsAre(tanh, Activation{}, Activation{}));
  EXPECT_THAT(Resolved("LSTMSequence", {}).activations[0], testing::ElementsAre(sigmoid, tanh, tanh));
  EXPECT_THAT(Resolved("GRUSequence", {}).activations[0], testing::ElementsAre(sigmoid, tanh, Activation{}));
}

TEST(ActivationsTest, AllNamesInAnyCaseWithTheirDefaultParameters) {
  const std::pair<const char*, Activation> table[] = {
      {"Relu", {ActivationKind::kRelu, 0, 0}},
      {"tanh", {ActivationKind::kTanh, 0, 0}},
      {"SIGMOID", {ActivationKind::kSigmoid, 0, 0}},
      {"affine", {ActivationKind::kAffine, 1, 0}},
      {"LeakyRelu", {ActivationKind::kLeakyRelu, F(0.01f), 0}},
      {"thresholdedRELU", {ActivationKind::kThresholdedRelu, 1, 0}},
      {"ScaledTanh", {ActivationKind::kScaledTanh, 1, 1}},
      {"HardSigmoid", {ActivationKind::kHardSigmoid, F(0.2f), 0.5}},
      {"elu", {ActivationKind::kElu, 1, 0}},
      {"Softsign", {ActivationKind::kSoftsign, 0, 0}},
      {"softplus", {ActivationKind::kSoftplus, 0, 0}},
  };
  for (const auto& [name, want] : table) EXPECT_EQ(Resolved("RNN", {name}).activations[0][0], want) << name;
}

// The proof of "as needed" in the specification: onnxruntime's test GRUPositiveActivationAlphaBeta.
TEST(ActivationsTest, OnnxListsAreConsumedAsNeeded) {
  const OpSpec spec = Resolved("GRU", {"LeakyRelu", "Tanh", "Sigmoid", "ScaledTanh"}, {0.5f, 2}, {2});
  EXPECT_EQ(spec.activations[0][0], (Activation{ActivationKind::kLeakyRelu, 0.5, 0}));
  EXPECT_EQ(spec.activations[0][1], (Activation{ActivationKind::kTanh, 0, 0}));
  EXPECT_EQ(spec.activations[1][0], (Activation{ActivationKind::kSigmoid, 0, 0}));
  EXPECT_EQ(spec.activations[1][1], (Activation{ActivationKind::kScaledTanh, 2, 2}));
  EXPECT_TRUE(spec.warnings.empty());
}

TEST(ActivationsTest, FunctionsLeftWithoutAValueUseTheDefault) {
  const OpSpec spec = Resolved("LSTM", {"HardSigmoid", "LeakyRelu", "Elu"}, {0.25f}, {});
  EXPECT_THAT(spec.activations[0], testing::ElementsAre(Activation{ActivationKind::kHardSigmoid, 0.25, 0.5},
                                                        Activation{ActivationKind::kLeakyRelu, F(0.01f), 0},
                                                        Activation{ActivationKind::kElu, 1, 0}));
}

TEST(ActivationsTest, OnnxListsWithAValueForEveryFunctionGoByPositionAndWarn) {
  const OpSpec spec = Resolved("LSTM", {"Sigmoid", "LeakyRelu", "Tanh"}, {9, 0.5f, 9}, {});
  EXPECT_THAT(spec.activations[0], testing::ElementsAre(Activation{ActivationKind::kSigmoid, 0, 0},
                                                        Activation{ActivationKind::kLeakyRelu, 0.5, 0},
                                                        Activation{ActivationKind::kTanh, 0, 0}));
  ASSERT_EQ(spec.warnings.size(), 1u);
  EXPECT_THAT(spec.warnings[0],
              testing::HasSubstr("activation_alpha has 3 values for 3 functions, of which 1 takes an alpha"));
}

TEST(ActivationsTest, ListsAreSeparate) {
  const OpSpec spec = Resolved("LSTM", {"HardSigmoid", "Affine", "Tanh"}, {0.25f, 0.75f}, {1, 2, 3});
  EXPECT_EQ(spec.activations[0][0], (Activation{ActivationKind::kHardSigmoid, 0.25, 1}));
  EXPECT_EQ(spec.activations[0][1], (Activation{ActivationKind::kAffine, 0.75, 2}));
  EXPECT_EQ(spec.warnings.size(), 1u);  // beta by position
}

TEST(ActivationsTest, RnnOfOneDirectionTakesTwoNamesAndUsesTheFirst) {
  const OpSpec spec = Resolved("RNN", {"LeakyRelu", "Affine"}, {0.5f, 0.75f}, {});
  EXPECT_EQ(spec.activations[0][0], (Activation{ActivationKind::kLeakyRelu, 0.5, 0}));
  EXPECT_EQ(spec.activations[0][1], Activation{});
  EXPECT_TRUE(spec.warnings.empty());
}

TEST(ActivationsTest, OpenVinoListsGoByPosition) {
  const OpSpec spec = Resolved("LSTMSequence", {"tanh", "hardsigmoid", "relu"}, {9, 0.5f}, {9, 0.25f, 9});
  EXPECT_THAT(spec.activations[0], testing::ElementsAre(Activation{ActivationKind::kTanh, 0, 0},
                                                        Activation{ActivationKind::kHardSigmoid, 0.5, 0.25},
                                                        Activation{ActivationKind::kRelu, 0, 0}));
  EXPECT_TRUE(spec.warnings.empty());
}

TEST(ActivationsTest, OpenVinoListsServeBothDirections) {
  Example example = OpenVinoExample("RNNSequence");
  example.op.attributes["direction"] = std::string("Bidirectional");
  example.op.attributes["activations"] = Names{"relu"};
  example.PutFilled("W", {2, 2, 3});
  example.PutFilled("R", {2, 2, 2});
  example.PutFilled("B", {2, 2});
  const absl::StatusOr<OpSpec> spec = Resolve(example);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->direction, Direction::kBidirectional);
  EXPECT_EQ(spec->activations[0][0].kind, ActivationKind::kRelu);
  EXPECT_EQ(spec->activations[1][0].kind, ActivationKind::kRelu);
}

TEST(ActivationsTest, EmptyListsMeanDefaults) {
  Example example = OnnxExample("GRU", 14);
  const std::string text = Resolve(example)->CanonicalText();
  example.op.attributes["activations"] = Names{};
  example.op.attributes["activation_alpha"] = Floats{};
  EXPECT_EQ(Resolve(example)->CanonicalText(), text);
}

TEST(ActivationsTest, IntsMayStandForFloats) {
  Example example = OnnxExample("RNN", 14);
  example.op.attributes["activations"] = Names{"Affine"};
  example.op.attributes["activation_alpha"] = std::vector<int64_t>{3};
  example.op.attributes["clip"] = int64_t{2};
  const absl::StatusOr<OpSpec> spec = Resolve(example);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->activations[0][0].alpha, 3);
  EXPECT_EQ(spec->clip, 2);
}

}  // namespace
}  // namespace rnnserve
