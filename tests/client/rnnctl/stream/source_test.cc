// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/stream/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "client/cpp/npy.h"
#include "client/rnnctl/arguments.h"
#include "client/rnnctl/stream/steps.h"

namespace rnnserve::rnnctl {
namespace {

using client::MakeTensor;
using client::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;

std::string Raw(const std::vector<float>& values) { return MakeTensor("", {}, values).bytes; }

// All chunks, or the error that ended them.
absl::StatusOr<std::vector<Tensor>> ReadAllChunks(const std::string& bytes, const XShape& x, int64_t steps) {
  std::istringstream in(bytes);
  const absl::StatusOr<std::unique_ptr<ChunkSource>> source = OpenSource(in, "input", x, steps);
  if (!source.ok()) return source.status();
  std::vector<Tensor> chunks;
  for (;;) {
    absl::StatusOr<std::optional<Tensor>> chunk = (*source)->Next();
    if (!chunk.ok()) return chunk.status();
    if (!*chunk) return chunks;
    chunks.push_back(**std::move(chunk));
  }
}

TEST(StepsTest, SlicesAndJoinsAlongAnyAxis) {
  const Tensor x = MakeTensor("X", {2, 3, 1}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const Tensor middle = SliceSteps(x, 1, 1, 1);
  EXPECT_THAT(middle.shape, ElementsAre(2, 1, 1));
  EXPECT_THAT(ValuesOf(middle), ElementsAre(2, 5));
  for (const size_t axis : {0, 1}) {
    const int64_t size = x.shape[axis];
    const Tensor joined = JoinSteps({SliceSteps(x, axis, 0, 1), SliceSteps(x, axis, 1, size - 1)}, axis);
    EXPECT_EQ(joined.shape, x.shape);
    EXPECT_EQ(joined.bytes, x.bytes);
  }
}

TEST(SourceTest, RawValuesComeInChunksAndARest) {
  const auto chunks = ReadAllChunks(Raw({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), {.rows = 1, .features = 2}, 2);
  ASSERT_TRUE(chunks.ok()) << chunks.status();
  ASSERT_EQ(chunks->size(), 3);
  EXPECT_THAT((*chunks)[0].shape, ElementsAre(2, 1, 2));
  EXPECT_THAT(ValuesOf((*chunks)[1]), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT((*chunks)[2].shape, ElementsAre(1, 1, 2));
}

TEST(SourceTest, RawValuesTakeTheModelsTypeAndAxes) {
  const auto chunks =
      ReadAllChunks(Raw({1, 2, 3, 4}), {.type = DataType::kDouble, .step_axis = 1, .rows = 2, .features = 1}, 8);
  ASSERT_TRUE(chunks.ok()) << chunks.status();
  EXPECT_EQ((*chunks)[0].type, DataType::kDouble);
  EXPECT_THAT((*chunks)[0].shape, ElementsAre(2, 2, 1));
  EXPECT_THAT(ValuesOf((*chunks)[0]), ElementsAre(1, 3, 2, 4));
}

TEST(SourceTest, RawValuesThatBeginLikeAnArrayAreStillValues) {
  const auto chunks = ReadAllChunks("\x93NUM\x93NUM", {.features = 1}, 1);
  ASSERT_TRUE(chunks.ok()) << chunks.status();
  EXPECT_EQ(chunks->size(), 2);
  EXPECT_EQ((*chunks)[0].bytes, "\x93NUM");
}

TEST(SourceTest, ArraysMayLackAxes) {
  for (const Shape& shape : {Shape{6}, Shape{6, 1}, Shape{6, 1, 1}}) {
    const std::string npy = FormatNpy(MakeTensor("", shape, std::vector<float>{1, 2, 3, 4, 5, 6}));
    const auto chunks = ReadAllChunks(npy, {}, 4);
    ASSERT_TRUE(chunks.ok()) << chunks.status();
    ASSERT_EQ(chunks->size(), 2);
    EXPECT_THAT((*chunks)[1].shape, ElementsAre(2, 1, 1));
    EXPECT_THAT(ValuesOf((*chunks)[1]), ElementsAre(5, 6));
  }
}

TEST(SourceTest, WhatCannotBeRead) {
  const auto refusal = [](const std::string& bytes, const XShape& x) {
    const absl::Status status = ReadAllChunks(bytes, x, 4).status();
    EXPECT_TRUE(IsUsageError(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(Raw({1, 2, 3}), {.features = 2}), HasSubstr("4 bytes are left over"));
  EXPECT_THAT(refusal(Raw({1, 2, 3}), {}), HasSubstr("--features"));
  EXPECT_THAT(refusal(FormatNpy(MakeTensor("", {1, 1, 1, 1}, std::vector<float>{1})), {}),
              HasSubstr("[steps, rows, features]"));
  EXPECT_THAT(refusal(FormatNpy(MakeTensor("", {1}, std::vector<int64_t>{1})), {}), HasSubstr("int64"));
  EXPECT_THAT(refusal("", {.rows = int64_t{1} << 20, .features = int64_t{1} << 24}), HasSubstr("one message"));
}

}  // namespace
}  // namespace rnnserve::rnnctl
