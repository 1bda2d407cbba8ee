// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>

#include "server/models/model.h"
#include "server/models/model_options.h"
#include "tests/server/models/model_fixture.h"

namespace rnnserve {
namespace {

std::string FingerprintOf(const TestOperator& given) {
  const auto spec = ResolveOperator(given.op, given.inputs);
  if (!spec.ok()) return std::string(spec.status().message());
  const LayerView layer = {given.op, given.inputs};
  return Fingerprint(*spec, {&layer, 1});
}

absl::StatusOr<ModelPtr> Create(const TestOperator& given, CellTable* shared = nullptr) {
  const auto spec = ResolveOperator(given.op, given.inputs);
  if (!spec.ok()) return spec.status();
  const LayerView layer = {given.op, given.inputs};
  return Model::Create(*spec, {&layer, 1}, Fingerprint(*spec, {&layer, 1}), shared);
}

// Callers keep fingerprints, and servers must agree on them: a change here breaks both.
TEST(Fingerprint, IsTheSameInEveryBuild) {
  EXPECT_EQ(FingerprintOf(MakeOperator("LSTM")), "a904adae147cdf064c34814d4a6d19cce526b91c8af5326fb3e77cd2ca7b2790");
  EXPECT_EQ(FingerprintOf(MakeOperator("GRU")), "5815df7f54798d5193cf0bc1725334ff6d588b8def01313a7f806c5a94f3e1b5");
  EXPECT_EQ(FingerprintOf(MakeOperator("RNN")), "74d09b6965c8acf9fe4da3fe997fc60b760cb7d450c204160e5d889de20b6426");
}

TEST(Fingerprint, SeesThroughSpelling) {
  const std::string plain = FingerprintOf(MakeOperator("LSTM"));
  TestOperator other = MakeOperator("LSTM");
  other.op.version.reset();
  other.op.opset = 15;
  EXPECT_EQ(FingerprintOf(other), plain) << "opset 15 means version 14";
  other.op.domain = "ai.onnx";
  EXPECT_EQ(FingerprintOf(other), plain);
  std::ranges::reverse(other.inputs);
  EXPECT_EQ(FingerprintOf(other), plain) << "the order of inputs";
  other.Add("X", {3, 1, 2}, 0);
  EXPECT_EQ(FingerprintOf(other), plain) << "data are not content";
  other.op.attributes["direction"] = "forward";
  other.op.attributes["hidden_size"] = int64_t{1};
  other.op.attributes["activations"] = std::vector<std::string>{"sigmoid", "Tanh", "TANH"};
  EXPECT_EQ(FingerprintOf(other), plain) << "defaults said aloud";
}

TEST(Fingerprint, SeesEveryDifference) {
  using Change = std::function<void(TestOperator&)>;
  const auto attribute = [](const char* name, AttributeValue value) -> Change {
    return [=](TestOperator& given) { given.op.attributes[name] = value; };
  };
  const auto bit = [](size_t input, size_t element) -> Change {
    return [=](TestOperator& given) {
      float& value = given.storage[input][element];
      value = std::nextafter(value, 100.F);
    };
  };
  const std::vector<Change> changes = {
      [](TestOperator&) {},
      [](TestOperator& given) { given.op.version = 7; },
      [](TestOperator& given) { given.inputs.pop_back(); },
      [](TestOperator& given) { std::ranges::fill(given.storage[2], 0.F); },
      [](TestOperator& given) {
        given.Add("P", {1, 3}, 0);
      },
      bit(0, 0),
      bit(0, 7),
      bit(1, 3),
      bit(2, 0),
      bit(2, 7),
      attribute("direction", "reverse"),
      attribute("clip", 1.F),
      attribute("clip", 1.5F),
      attribute("input_forget", int64_t{1}),
      attribute("layout", int64_t{1}),
      attribute("activations", std::vector<std::string>{"Sigmoid", "Tanh", "Relu"}),
      attribute("activations", std::vector<std::string>{"HardSigmoid", "Tanh", "Tanh"}),
      [&](TestOperator& given) {
        attribute("activations", std::vector<std::string>{"HardSigmoid", "Tanh", "Tanh"})(given);
        attribute("activation_alpha", std::vector<float>{0.25F})(given);
      },
      [&](TestOperator& given) {
        attribute("activations", std::vector<std::string>{"HardSigmoid", "Tanh", "Tanh"})(given);
        attribute("activation_beta", std::vector<float>{0.25F})(given);
      },
  };
  std::set<std::string> seen;
  for (size_t k = 0; k < changes.size(); ++k) {
    TestOperator given = MakeOperator("LSTM");
    changes[k](given);
    const std::string fingerprint = FingerprintOf(given);
    EXPECT_THAT(fingerprint, testing::MatchesRegex("[0-9a-f]{64}")) << k;
    EXPECT_TRUE(seen.insert(fingerprint).second) << "change " << k << " is not seen";
  }
}

TEST(Model, CellsForBothReadingsOfClip) {
  TestOperator given = MakeOperator("LSTM");
  ModelPtr model = Create(given).value();
  EXPECT_EQ(model->layers()[0].cells(true), model->layers()[0].cells(false)) << "without clip there is one reading";
  EXPECT_EQ(model->weight_bytes(), model->layers()[0].cells(true)[0]->weight_bytes());

  given.op.attributes["clip"] = 1.F;
  model = Create(given).value();
  EXPECT_TRUE(model->layers()[0].cells(true)[0]->spec().clip_cell_input);
  EXPECT_FALSE(model->layers()[0].cells(false)[0]->spec().clip_cell_input);
  EXPECT_EQ(model->weight_bytes(), 2 * model->layers()[0].cells(true)[0]->weight_bytes());

  given = MakeOperator("GRU");
  given.op.attributes["clip"] = 1.F;
  model = Create(given).value();
  EXPECT_EQ(model->layers()[0].cells(true), model->layers()[0].cells(false));
}

TEST(Model, EqualCellsAreOneObject) {
  CellTable table;
  TestOperator given = MakeOperator("GRU");
  const ModelPtr one = Create(given, &table).value();
  given.op.attributes["direction"] = "reverse";
  const ModelPtr two = Create(given, &table).value();
  EXPECT_NE(one->fingerprint(), two->fingerprint());
  EXPECT_EQ(one->layers()[0].cells(true), two->layers()[0].cells(true));
}

TEST(OptionalOptions, TheFirstThatSpeaksDecides) {
  const OptionalOptions request{.clip_cell_input = false, .deterministic = true};
  const OptionalOptions model{.clip_cell_input = true, .empty_row_state = EmptyRowState::kInitial};
  const OptionalOptions merged = Merge(request, model);
  EXPECT_EQ(merged.clip_cell_input, false);
  EXPECT_EQ(merged.empty_row_state, EmptyRowState::kInitial);
  EXPECT_EQ(merged.deterministic, true);
  EXPECT_EQ(merged.allow_reduced_precision, std::nullopt);
  EXPECT_EQ(merged.weights, std::nullopt);
  EXPECT_EQ(Merge({.weights = WeightType::kAsGiven}, {.weights = WeightType::kInt8}).weights, WeightType::kAsGiven);
  EXPECT_EQ(Merge({}, {.weights = WeightType::kInt8}).weights, WeightType::kInt8);
}

TEST(OptionalOptions, NarrowWeightsNeedReducedPrecision) {
  for (const WeightType type : kNarrowWeights) {
    EXPECT_TRUE(CheckOptions({.allow_reduced_precision = true, .weights = type}).ok());
    for (const OptionalOptions& options :
         {OptionalOptions{.weights = type}, {.allow_reduced_precision = false, .weights = type}}) {
      const absl::Status refused = CheckOptions(options);
      EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_TRUE(std::string(refused.message()).starts_with(std::string(WeightTypeName(type)) + " rounds weights"))
          << refused;
    }
  }
  EXPECT_TRUE(CheckOptions({}).ok());
  EXPECT_TRUE(CheckOptions({.weights = WeightType::kAsGiven}).ok());
  EXPECT_FALSE(CheckOptions({.allow_reduced_precision = true, .weights = static_cast<WeightType>(4)}).ok());
}

}  // namespace
}  // namespace rnnserve
