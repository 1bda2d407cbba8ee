// SPDX-License-Identifier: Apache-2.0
// Axes through Transpose, Squeeze, Unsqueeze and Reshape; T and N are any number.
#include "onnx_file/axes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rnnserve {
namespace {

using testing::HasSubstr;

struct Step {
  std::string op_type;
  std::optional<std::vector<int64_t>> list = {};
};

absl::Status Apply(Axes& axes, const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    onnx::NodeProto node;
    node.set_op_type(step.op_type);
    const absl::Status status = axes.Apply(
        node,
        [&](std::string_view, size_t) -> absl::StatusOr<std::optional<std::vector<int64_t>>> { return step.list; });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// D = 2, H = 5.
std::string After(const std::vector<Step>& steps, int64_t directions = 2, int64_t hidden_size = 5, int64_t layout = 0) {
  Axes axes = Axes::OfY(directions, hidden_size, layout);
  const absl::Status status = Apply(axes, steps);
  return status.ok() ? axes.Text() : std::string(status.message());
}

TEST(AxesTest, WhatExportersPutBetweenLayers) {
  const Step turn = {"Transpose", {{0, 2, 1, 3}}};
  EXPECT_EQ(After({}), "[T, 2, N, 5]");
  EXPECT_EQ(After({turn, {"Reshape", {{0, 0, -1}}}}), "[T, N, 2*5]");
  EXPECT_EQ(After({turn, {"Reshape", {{0, 0, 10}}}}), "[T, N, 2*5]");
  EXPECT_EQ(After({turn, {"Reshape", {{0, -1, 10}}}}), "[T, N, 2*5]");
  EXPECT_EQ(After({turn, {"Reshape", {{-1, 0, 10}}}}), "[T, N, 2*5]");
  EXPECT_EQ(After({{"Squeeze", {{1}}}}, 1), "[T, N, 5]");
  EXPECT_EQ(After({{"Squeeze", {{-3}}}, {"Transpose", {{1, 0, 2}}}, {"Identity"}}, 1), "[N, T, 5]");
  EXPECT_EQ(After({turn, {"Reshape", {{0, 0, -1}}}}, 1), "[T, N, 5]");
  EXPECT_EQ(After({{"Squeeze", {{1}}}, {"Unsqueeze", {{0, 2}}}}, 1), "[1, T, 1, N, 5]");
  EXPECT_EQ(After({{"Reshape", {{0, 0, -1}}}}, 2, 5, 1), "[N, T, 2*5]");
  EXPECT_EQ(After({turn, {"Reshape", {{0, 0, 1}}}}, 1, 1), "[T, N, 1]") << "an H of 1";
  EXPECT_EQ(After({turn, {"Reshape", {{0, 0, 2}}}}, 2, 1), "[T, N, 2]");
  EXPECT_EQ(After({turn, {"Reshape", {{-1, 0, 2}}}}, 2, 1), "[T, N, 2]");
  EXPECT_EQ(After({turn, {"Reshape", {{0, 0, 2, 1, 5}}}}), "[T, N, 2, 1, 5]");
  EXPECT_EQ(After({turn, {"Reshape", {{0, 0, -1}}}, {"Reshape", {{0, 0, 2, 5}}}}), "[T, N, 2, 5]");
}

TEST(AxesTest, WhatMayMixNumbersIsRefused) {
  EXPECT_THAT(After({{"Squeeze", {{1}}}}), HasSubstr("takes axis 1 out of [T, 2, N, 5], which is not always 1"));
  EXPECT_THAT(After({{"Squeeze"}}, 1), HasSubstr("names no axes"));
  EXPECT_THAT(After({{"Reshape", {{7, 2, -1}}}}), HasSubstr("makes another axis 0 of [T, 2, N, 5]"));
  EXPECT_THAT(After({{"Reshape", {{0, 4, -1}}}}), HasSubstr("makes another axis 1"));
  EXPECT_THAT(After({{"Reshape", {{0, 0}}}}), HasSubstr("only a part"));
  EXPECT_THAT(After({{"Reshape"}}), HasSubstr("has no shape"));
  EXPECT_THAT(After({{"Reshape", {{0, 0, 0, 0, 0}}}}), HasSubstr("0 as axis 4"));
  EXPECT_THAT(After({{"Reshape", {{-1, 10, 0}}}}), HasSubstr("makes another axis 2 of [T, 2, N, 5]"));
  EXPECT_THAT(After({{"Transpose", {{0, 1}}}}), HasSubstr("perm of 2 axes, but 4 come"));
  EXPECT_THAT(After({{"Transpose", {{0, 1, 1, 2}}}}), HasSubstr("names axis 1 twice"));
  EXPECT_THAT(After({{"Transpose", {{0, 1, 2, 4}}}}), HasSubstr("names axis 4 of 4"));
  EXPECT_THAT(After({{"Unsqueeze", {{0, 1, 2, 3, 4}}}}), HasSubstr("gives 9 axes"));
  EXPECT_THAT(After({{"Add"}}), HasSubstr("computes numbers"));
  EXPECT_THAT(After({{"Reshape", {{0, 0, -1}}}}, 2, 0), "[T, 2, N*?]");
}

TEST(AxesTest, WhatTheNextLayerTakes) {
  const auto is_x = [](const std::vector<Step>& steps, int64_t layout) {
    Axes axes = Axes::OfY(2, 5, layout);
    EXPECT_TRUE(Apply(axes, steps).ok());
    return axes.IsXOf(layout);
  };
  EXPECT_TRUE(is_x({{"Transpose", {{0, 2, 1, 3}}}, {"Reshape", {{0, 0, -1}}}}, 0));
  EXPECT_FALSE(is_x({{"Transpose", {{0, 2, 3, 1}}}, {"Reshape", {{0, 0, -1}}}}, 0)) << "H outside of D";
  EXPECT_FALSE(is_x({{"Transpose", {{2, 0, 1, 3}}}, {"Reshape", {{0, 0, -1}}}}, 0)) << "N first";
  EXPECT_FALSE(is_x({{"Transpose", {{0, 2, 1, 3}}}}, 0)) << "four axes";
  EXPECT_TRUE(is_x({{"Reshape", {{0, 0, -1}}}}, 1));
  for (const int64_t directions : {1, 2}) {  // H not known
    Axes axes = Axes::OfY(directions, 0, 0);
    EXPECT_FALSE(axes.IsXOf(0));
    EXPECT_TRUE(Apply(axes, {{"Transpose", {{0, 2, 1, 3}}}, {"Reshape", {{0, 0, -1}}}}).ok());
    EXPECT_TRUE(axes.IsXOf(0));
  }
  Axes input = Axes::OfInput();
  EXPECT_TRUE(input.IsInputItself());
  ASSERT_TRUE(Apply(input, {{"Transpose", {{1, 0, 2}}}}).ok());
  EXPECT_TRUE(input.IsInputTurned());
  ASSERT_TRUE(Apply(input, {{"Transpose"}}).ok());
  EXPECT_FALSE(input.IsInputTurned());
}

}  // namespace
}  // namespace rnnserve
