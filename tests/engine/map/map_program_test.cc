// SPDX-License-Identifier: Apache-2.0
// Maps as programs: rows from anywhere to anywhere, cut anywhere. Operators against onnxruntime: tests/integration/
// test_whole_models.py.
#include "engine/map/map_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <tuple>

namespace rnnserve {
namespace {

MapNumbersPtr Numbers(std::vector<float> values) {
  auto numbers = std::make_shared<MapNumbers>();
  numbers->f32 = std::move(values);
  return numbers;
}

// [columns of 3] = tanh(x of 2 * w + b), then the sum of both halves of it beside its largest place.
Map SmallMap() {
  Map map;
  map.values = {{2}, {3}, {1, true}};
  map.inputs = {{0, DataType::kFloat}};
  map.outputs = {{1, DataType::kFloat}, {2, DataType::kInt32}};
  map.ops = {{.kind = MapOpKind::kProduct,
              .function = MapFunction::kTanh,
              .in = {0},
              .out = {1},
              .a = Numbers({0.5F, -1, 2, 0.25F, 1, -0.5F}),
              .b = Numbers({0.1F, 0.2F, -0.3F}),
              .inner = 2},
             {.kind = MapOpKind::kArgMax, .in = {1}, .out = {2}, .inner = 3}};
  return map;
}

std::vector<float> Expected(float a, float b) {
  return {std::tanh(a * 0.5F + b * 0.25F + 0.1F), std::tanh(-a + b + 0.2F), std::tanh(2 * a - b * 0.5F - 0.3F)};
}

class MapProgramTest : public testing::TestWithParam<bool> {};

TEST_P(MapProgramTest, RowsOfAnyLengthCutAnywhere) {
  const ProgramPtr program = CompileMap(std::make_shared<Map>(SmallMap()), {.deterministic = GetParam()});
  const auto workspace = program->NewWorkspace();
  constexpr int64_t kLengths[] = {1, 7, 150, 64};
  constexpr int64_t kMost = 150, kRows = 4;
  std::vector<float> x(kMost * kRows * 2), y(kMost * kRows * 3, -1);
  std::vector<int32_t> best(kMost * kRows, -1);
  for (size_t k = 0; k < x.size(); ++k) x[k] = std::sin(static_cast<float>(k));
  std::vector<std::unique_ptr<State>> states;
  for (int64_t row = 0; row < kRows; ++row) {
    states.push_back(program->NewState());
    auto& places = static_cast<MapRow&>(*states.back());
    places.in[0] = {reinterpret_cast<const std::byte*>(x.data() + row * 2), kRows * 2 * 4};
    places.out[0] = {.first = reinterpret_cast<std::byte*>(y.data() + row * 3), .step = kRows * 3 * 4};
    places.out[1] = {.first = reinterpret_cast<std::byte*>(best.data() + row * kMost), .step = 4};
  }
  for (int64_t first = 0, step = 1; first < kMost; first += step, step = step * 3) {
    std::vector<SequenceSlice> slices;
    for (size_t row = 0; row < kRows; ++row) {
      SequenceSlice slice;
      slice.steps = std::min(step, kLengths[row] - first);
      slice.after = states[row].get();
      if (slice.steps > 0) slices.push_back(slice);
    }
    ASSERT_TRUE(program->Advance(slices, *workspace).ok());
  }
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t t = 0; t < kMost; ++t) {
      const float* got = y.data() + (t * kRows + row) * 3;
      const float* from = x.data() + (t * kRows + row) * 2;
      const std::vector<float> expected =
          t < kLengths[row] ? Expected(from[0], from[1]) : std::vector<float>{-1, -1, -1};
      for (size_t k = 0; k < 3; ++k) ASSERT_NEAR(got[k], expected[k], 2e-6) << row << " " << t;
      const auto largest = std::max_element(expected.begin(), expected.end()) - expected.begin();
      ASSERT_EQ(best[static_cast<size_t>(row * kMost + t)], t < kLengths[row] ? largest : -1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, MapProgramTest, testing::Bool());

TEST(MapRowTest, EndsOfARow) {
  Map map;
  map.values = {{2}};
  map.inputs = {{0, DataType::kFloat}};
  constexpr OverTime kEnds[] = {OverTime::kFirst, OverTime::kLast,    OverTime::kSum,
                                OverTime::kMean,  OverTime::kLargest, OverTime::kSmallest};
  for (size_t k = 0; k < std::size(kEnds); ++k) map.outputs.push_back({0, DataType::kFloat});
  const ProgramPtr program = CompileMap(std::make_shared<Map>(map), {});
  const auto workspace = program->NewWorkspace();
  const float x[] = {1, -2, 5, 0, -3, 4.5F};
  float ends[6][2] = {};
  const auto state = program->NewState();
  auto& places = static_cast<MapRow&>(*state);
  places.in[0] = {reinterpret_cast<const std::byte*>(x), 8};
  for (size_t k = 0; k < 6; ++k)
    places.out[k] = {.first = reinterpret_cast<std::byte*>(ends[k]), .over_time = kEnds[k]};
  for (const int64_t steps : {1, 2}) {
    SequenceSlice slice;
    slice.steps = steps;
    slice.after = state.get();
    ASSERT_TRUE(program->Advance({&slice, 1}, *workspace).ok());
  }
  EXPECT_THAT(ends[0], testing::ElementsAre(1, -2));
  EXPECT_THAT(ends[1], testing::ElementsAre(-3, 4.5F));
  EXPECT_THAT(ends[2], testing::ElementsAre(3, 2.5F));
  EXPECT_THAT(ends[3], testing::Pointwise(testing::FloatNear(1e-6F), {1.0F, 2.5F / 3}));
  EXPECT_THAT(ends[4], testing::ElementsAre(5, 4.5F));
  EXPECT_THAT(ends[5], testing::ElementsAre(-3, -2));
}

TEST(MapRowTest, NumbersInGroups) {
  Map map;
  map.values = {{4}};
  map.inputs = {{0, DataType::kFloat16}};
  map.outputs = {{0, DataType::kFloat}};
  const ProgramPtr program = CompileMap(std::make_shared<Map>(map), {});
  const uint16_t x[] = {0x3c00, 0x4000, 0x4200, 0x4400};  // 1 2 3 4
  float y[10] = {};
  const auto state = program->NewState();
  auto& places = static_cast<MapRow&>(*state);
  places.in[0] = {reinterpret_cast<const std::byte*>(x), 8};
  places.out[0] = {.first = reinterpret_cast<std::byte*>(y), .groups = 2, .group = 20};
  SequenceSlice slice;
  slice.steps = 1;
  slice.after = state.get();
  ASSERT_TRUE(program->Advance({&slice, 1}, *program->NewWorkspace()).ok());
  EXPECT_THAT(y, testing::ElementsAre(1, 2, 0, 0, 0, 3, 4, 0, 0, 0));
}

// What a map of one operator gives for one row of `x`.
template <typename Out>
std::vector<Out> Computed(const MapOp& op, const std::vector<float>& x, int64_t width, bool is_integer, int output) {
  Map map;
  map.values = {{static_cast<int64_t>(x.size())}};
  for (size_t k = 0; k < op.out.size(); ++k) map.values.push_back({width, is_integer && k + 1 == op.out.size()});
  map.inputs = {{0, DataType::kFloat}};
  map.outputs = {{output, is_integer ? DataType::kInt64 : DataType::kFloat}};
  map.ops = {op};
  const ProgramPtr program = CompileMap(std::make_shared<Map>(map), {});
  const auto state = program->NewState();
  std::vector<Out> y(static_cast<size_t>(width));
  auto& places = static_cast<MapRow&>(*state);
  places.in[0] = {reinterpret_cast<const std::byte*>(x.data()), 0};
  places.out[0] = {.first = reinterpret_cast<std::byte*>(y.data())};
  SequenceSlice slice;
  slice.steps = 1;
  slice.after = state.get();
  EXPECT_TRUE(program->Advance({&slice, 1}, *program->NewWorkspace()).ok());
  return y;
}

// Numbers of which some are equal, NaN and infinite.
std::vector<float> Mixed(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> x(count);
  for (float& value : x) value = static_cast<float>(random() % 41) - 20;
  if (seed % 3 == 0) x[random() % count] = NAN;
  if (seed % 3 == 1) x[random() % count] = -INFINITY;
  return x;
}

TEST(MapRowTest, TheLargestAndTheirPlaces) {
  for (const size_t count : {1U, 7U, 64U, 65U, 1000U}) {
    for (uint32_t seed = 0; seed < 6; ++seed) {
      const std::vector<float> x = Mixed(count, seed);
      std::vector<int64_t> order(count);
      std::iota(order.begin(), order.end(), 0);
      const auto rank = [&](int64_t k) {
        const float value = x[static_cast<size_t>(k)];
        return std::pair(std::isnan(value), std::isnan(value) ? 0 : value);
      };
      std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return rank(a) > rank(b); });
      for (const int64_t k : {1, 5, 32, 33, 64}) {
        if (k > static_cast<int64_t>(count)) continue;
        const MapOp op = {
            .kind = MapOpKind::kTopK, .in = {0}, .out = {1, 2}, .inner = static_cast<int64_t>(count), .count = k};
        EXPECT_THAT(Computed<int64_t>(op, x, k, true, 2),
                    testing::ElementsAreArray(std::span(order).first(static_cast<size_t>(k))))
            << count << " " << k << " " << seed;
      }
    }
  }
}

TEST(MapRowTest, SoftmaxBesideDouble) {
  for (const size_t count : {1U, 2U, 17U, 500U, 10000U}) {
    for (uint32_t seed = 0; seed < 6; ++seed) {
      std::vector<float> x = Mixed(count, seed);
      for (size_t k = 0; k < count; ++k) x[k] *= seed < 3 ? 0.37F : 10.1F;  // sums of many, or little beside one
      double largest = -INFINITY, sum = 0;
      for (const float value : x) largest = std::max<double>(largest, value);
      for (const float value : x) sum += std::exp(value - largest);
      const auto width = static_cast<int64_t>(count);
      for (const MapOpKind kind : {MapOpKind::kSoftmax, MapOpKind::kLogSoftmax}) {
        const std::vector<float> y =
            Computed<float>({.kind = kind, .in = {0}, .out = {1}, .inner = width}, x, width, false, 1);
        for (size_t k = 0; k < count; ++k) {
          const double power = x[k] - largest;
          const double expected = kind == MapOpKind::kSoftmax ? std::exp(power) / sum : power - std::log(sum);
          if (std::isnan(sum)) {
            EXPECT_TRUE(std::isnan(y[k])) << count << " " << seed;
          } else if (std::isinf(expected)) {
            EXPECT_EQ(y[k], expected);
          } else {
            EXPECT_NEAR(y[k], expected, 5e-7 * std::max(1.0, std::abs(expected))) << count << " " << seed << " " << k;
          }
        }
      }
    }
  }
}

// Operators that only an output without a place needs are passed over, and what the others need is not.
TEST(MapRowTest, WhatNoRowWantsIsNotComputed) {
  const ProgramPtr program = CompileMap(std::make_shared<Map>(SmallMap()), {});
  const auto workspace = program->NewWorkspace();
  const float x[] = {0.5F, -1};
  const std::vector<float> expected = Expected(x[0], x[1]);
  for (const size_t wanted : {0U, 1U}) {
    float y[3] = {};
    int32_t best = -1;
    const auto state = program->NewState();
    auto& places = static_cast<MapRow&>(*state);
    places.in[0] = {reinterpret_cast<const std::byte*>(x), 8};
    if (wanted == 0) places.out[0] = {.first = reinterpret_cast<std::byte*>(y)};
    if (wanted == 1) places.out[1] = {.first = reinterpret_cast<std::byte*>(&best)};
    SequenceSlice slice;
    slice.steps = 1;
    slice.after = state.get();
    ASSERT_TRUE(program->Advance({&slice, 1}, *workspace).ok());
    if (wanted == 0) {
      EXPECT_THAT(y, testing::Pointwise(testing::FloatNear(2e-6F), expected));
    } else {
      EXPECT_EQ(best, std::ranges::max_element(expected) - expected.begin());
    }
  }
}

// What is there already counts as steps more: of a row that ends before the others.
TEST(MapRowTest, WhatEndsARowGoesOnFromWhatItHolds) {
  Map map;
  map.values = {{1}};
  map.inputs = map.outputs = {{0}};
  const ProgramPtr program = CompileMap(std::make_shared<Map>(map), {});
  const auto workspace = program->NewWorkspace();
  const float x[] = {-3, -2, -4};
  const std::tuple<OverTime, int64_t, float> cases[] = {{OverTime::kLargest, 0, -2}, {OverTime::kLargest, 2, -1},
                                                        {OverTime::kSum, 0, -9},     {OverTime::kSum, 2, -10},
                                                        {OverTime::kMean, 0, -3},    {OverTime::kMean, 2, -11.0F / 5}};
  for (const auto& [over_time, begun, expected] : cases) {
    float y = -1;
    const auto state = program->NewState();
    auto& places = static_cast<MapRow&>(*state);
    places.in[0] = {reinterpret_cast<const std::byte*>(x), 4};
    places.out[0] = {.first = reinterpret_cast<std::byte*>(&y), .over_time = over_time, .begun = begun};
    SequenceSlice slice;
    slice.steps = 3;
    slice.after = state.get();
    ASSERT_TRUE(program->Advance({&slice, 1}, *workspace).ok());
    EXPECT_FLOAT_EQ(y, expected);
  }
}

// Whose sum would be infinite, or is.
TEST(MapRowTest, MeansFarFromZero) {
  Map map;
  map.values = {{4}};
  map.inputs = map.outputs = {{0}};
  const ProgramPtr program = CompileMap(std::make_shared<Map>(map), {});
  const auto workspace = program->NewWorkspace();
  constexpr float kFar = 3e38F, kInfinity = std::numeric_limits<float>::infinity();
  const float x[] = {kFar,  1, kInfinity, -kInfinity,  //
                     -kFar, 2, 1,         kInfinity,   //
                     -kFar, 6, 2,         1};
  float y[] = {0, 0, 0, 0};
  const auto state = program->NewState();
  auto& places = static_cast<MapRow&>(*state);
  places.in[0] = {reinterpret_cast<const std::byte*>(x), 16};
  places.out[0] = {.first = reinterpret_cast<std::byte*>(y), .over_time = OverTime::kMean};
  SequenceSlice slice;
  slice.steps = 3;
  slice.after = state.get();
  ASSERT_TRUE(program->Advance({&slice, 1}, *workspace).ok());
  EXPECT_THAT(y, testing::ElementsAre(testing::FloatEq(-1e38F), testing::FloatEq(3), kInfinity, testing::IsNan()));
}

TEST(MapTest, EveryFunctionIsCalledSomething) {
  const auto of = [](MapOpKind kind, MapFunction function) {
    Map map;
    map.values = {{1}};
    map.ops = {{.kind = kind, .function = function, .in = {0}, .out = {0}, .inner = 1}};
    return Describe(map);
  };
  EXPECT_EQ(of(MapOpKind::kUnary, MapFunction::kRound), "Round");
  EXPECT_EQ(of(MapOpKind::kBinary, MapFunction::kMinimum), "Min");
  EXPECT_EQ(of(MapOpKind::kConstant, MapFunction::kGreater), "Greater");
  EXPECT_EQ(of(MapOpKind::kBinary, MapFunction::kWhereNot), "WhereNot");
  EXPECT_EQ(of(MapOpKind::kReduce, MapFunction::kSum), "Reduce Sum");
  EXPECT_EQ(of(MapOpKind::kReduce, MapFunction::kSmallest), "Reduce Min");
}

}  // namespace
}  // namespace rnnserve
