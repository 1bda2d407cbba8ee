// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/mix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/rnnctl/arguments.h"

namespace rnnserve::rnnctl::bench {
namespace {

using testing::HasSubstr;

TEST(MixTest, ReadsModelsAndOperators) {
  const auto mix = ParseMix(R"([
      {"weight": 2.5, "model": "vad:3", "steps": [1, 400], "rows": 2},
      {"op": "GRU", "opset": 14, "hidden": 7, "input": 5, "steps": 9, "attributes": ["linear_before_reset=1"]}])",
                            "mix.json");
  ASSERT_TRUE(mix.ok()) << mix.status();
  ASSERT_EQ(mix->size(), 2u);
  const MixEntry& model = (*mix)[0];
  EXPECT_EQ(model.weight, 2.5);
  EXPECT_EQ(model.model->name, "vad");
  EXPECT_EQ(model.model->version, 3);
  EXPECT_EQ(model.min_steps, 1);
  EXPECT_EQ(model.max_steps, 400);
  EXPECT_EQ(model.rows, 2);
  const MixEntry& op = (*mix)[1];
  EXPECT_EQ(op.weight, 1);
  EXPECT_FALSE(op.model);
  EXPECT_EQ(op.op, "GRU");
  EXPECT_EQ(op.opset, 14);
  EXPECT_EQ(op.hidden, 7);
  EXPECT_EQ(op.input, 5);
  EXPECT_EQ(op.min_steps, 9);
  EXPECT_EQ(op.max_steps, 9);
  EXPECT_EQ(op.attributes.at("linear_before_reset"), AttributeValue(int64_t{1}));
}

TEST(MixTest, InputIsAsWideAsTheStateUnlessSaid) {
  const auto mix = ParseMix(R"([{"op": "LSTM", "hidden": 64}])", "mix.json");
  ASSERT_TRUE(mix.ok()) << mix.status();
  EXPECT_EQ((*mix)[0].input, 64);
}

struct Bad {
  const char* json;
  const char* told;
};

class BadMixTest : public testing::TestWithParam<Bad> {};

TEST_P(BadMixTest, IsRefusedNamingTheEntryAndTheKey) {
  const auto mix = ParseMix(GetParam().json, "mix.json");
  ASSERT_FALSE(mix.ok());
  EXPECT_TRUE(IsUsageError(mix.status()));
  EXPECT_THAT(std::string(mix.status().message()), HasSubstr(GetParam().told));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadMixTest,
    testing::Values(Bad{"", "mix.json is no JSON list"}, Bad{"{}", "mix.json is no JSON list"},
                    Bad{"[]", "at least one entry"}, Bad{"[3]", "mix.json[0]: expected an object"},
                    Bad{R"([{"model": "a"}, {}])", "mix.json[1] has neither model nor op"},
                    Bad{R"([{"op": "LSTM", "wieght": 1}])", "did you mean weight?"},
                    Bad{R"([{"model": "a", "hidden": 3}])", "hidden belongs to op"},
                    Bad{R"([{"model": "a", "weight": 0}])", "mix.json[0].weight: expected a number above 0"},
                    Bad{R"([{"model": "a", "weight": "NaN"}])", "mix.json[0].weight"},
                    Bad{R"([{"model": "a:0"}])", "mix.json[0].model"}, Bad{R"([{"model": 3}])", "expected a string"},
                    Bad{R"([{"op": "LSTM", "rows": 1.5}])", "mix.json[0].rows: expected a whole number"},
                    Bad{R"([{"op": "LSTM", "hidden": 1e30}])", "mix.json[0].hidden"},
                    Bad{R"([{"op": "LSTM", "steps": [3, 2]}])", "the shortest length first"},
                    Bad{R"([{"op": "LSTM", "steps": [3]}])", "[SHORTEST, LONGEST]"},
                    Bad{R"([{"op": "LSTMSequence"}])", "not for LSTMSequence"},
                    Bad{R"([{"op": "LSTM", "attributes": ["layout=1"]}])", "layout"},
                    Bad{R"([{"op": "LSTM", "attributes": "clip=1"}])", "a list of"}));

TEST(MixTest, DeepNestingIsRefused) {
  const std::string deep = std::string(2000, '[') + std::string(2000, ']');
  EXPECT_FALSE(ParseMix(deep, "mix.json").ok());
}

}  // namespace
}  // namespace rnnserve::rnnctl::bench
