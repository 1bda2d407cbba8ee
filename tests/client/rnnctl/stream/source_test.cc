// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/stream/source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "client/rnnctl/arguments.h"
#include "client/rnnctl/npy.h"
#include "client/rnnctl/stream/steps.h"

namespace rnnserve::rnnctl {
namespace {

using client::MakeTensor;
using client::Tensor;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string Raw(const std::vector<float>& values) { return MakeTensor("", {}, values).bytes; }

Reading Bare(int64_t steps) { return {.format = InputFormat::kRaw, .steps = steps}; }

// All chunks, or the error that ended them.
absl::StatusOr<std::vector<Tensor>> ReadAllChunks(const std::string& bytes, const XShape& x, const Reading& reading) {
  std::istringstream in(bytes);
  const absl::StatusOr<std::unique_ptr<ChunkSource>> source = OpenSource(in, "input", x, reading);
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
  const auto chunks = ReadAllChunks(Raw({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), {.rows = 1, .features = 2}, Bare(2));
  ASSERT_TRUE(chunks.ok()) << chunks.status();
  ASSERT_EQ(chunks->size(), 3);
  EXPECT_THAT((*chunks)[0].shape, ElementsAre(2, 1, 2));
  EXPECT_THAT(ValuesOf((*chunks)[1]), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT((*chunks)[2].shape, ElementsAre(1, 1, 2));
}

TEST(SourceTest, RawValuesTakeTheModelsTypeAndAxes) {
  const auto chunks =
      ReadAllChunks(Raw({1, 2, 3, 4}), {.type = DataType::kDouble, .step_axis = 1, .rows = 2, .features = 1}, Bare(8));
  ASSERT_TRUE(chunks.ok()) << chunks.status();
  EXPECT_EQ((*chunks)[0].type, DataType::kDouble);
  EXPECT_THAT((*chunks)[0].shape, ElementsAre(2, 2, 1));
  EXPECT_THAT(ValuesOf((*chunks)[0]), ElementsAre(1, 3, 2, 4));
}

TEST(SourceTest, RawValuesThatBeginLikeAnArrayAreStillValues) {
  const auto chunks = ReadAllChunks("\x93NUMPY\x93N", {.features = 1}, Bare(1));
  ASSERT_TRUE(chunks.ok()) << chunks.status();
  EXPECT_EQ(chunks->size(), 2);
  EXPECT_EQ((*chunks)[0].bytes, "\x93NUM");
}

TEST(SourceTest, ArraysMayLackAxes) {
  for (const Shape& shape : {Shape{6}, Shape{6, 1}, Shape{6, 1, 1}}) {
    const std::string npy = FormatNpy(MakeTensor("", shape, std::vector<float>{1, 2, 3, 4, 5, 6}));
    const auto chunks = ReadAllChunks(npy, {}, {.steps = 4});
    ASSERT_TRUE(chunks.ok()) << chunks.status();
    ASSERT_EQ(chunks->size(), 2);
    EXPECT_THAT((*chunks)[1].shape, ElementsAre(2, 1, 1));
    EXPECT_THAT(ValuesOf((*chunks)[1]), ElementsAre(5, 6));
  }
}

TEST(SourceTest, StepsMayComeLast) {
  const XShape channels_first = {.name = "x", .rank = 3, .step_axis = 2, .rows_axis = 0, .features = 2};
  const std::string npy = FormatNpy(MakeTensor("", {1, 2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6}));
  const auto chunks = ReadAllChunks(npy, channels_first, {.steps = 2});
  ASSERT_TRUE(chunks.ok()) << chunks.status();
  EXPECT_THAT((*chunks)[0].shape, ElementsAre(1, 2, 2));
  EXPECT_THAT(ValuesOf((*chunks)[0]), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(ValuesOf((*chunks)[1]), ElementsAre(3, 6));
  EXPECT_THAT(
      ReadAllChunks(FormatNpy(MakeTensor("", {2, 3}, std::vector<float>(6))), channels_first, {}).status().message(),
      HasSubstr("x has 3 axes, of which none can be left out"));
  EXPECT_THAT(ReadAllChunks(Raw({1, 2}), channels_first, Bare(1)).status().message(),
              HasSubstr("only .npy files can be fed"));
}

TEST(SourceTest, TokensAreOneNumberOfEachStepAndRow) {
  const XShape rows_first = {.name = "tokens", .type = DataType::kInt64, .rank = 2, .step_axis = 1};
  const auto read = [&](const Shape& shape, const XShape& x) {
    return ReadAllChunks(FormatNpy(MakeTensor("", shape, std::vector<int64_t>{1, 2, 3, 4, 5, 6})), x, {.steps = 2});
  };
  const auto two_rows = read({2, 3}, rows_first);
  ASSERT_TRUE(two_rows.ok()) << two_rows.status();
  ASSERT_EQ(two_rows->size(), 2);
  EXPECT_EQ((*two_rows)[0].name, "tokens");
  EXPECT_THAT((*two_rows)[0].shape, ElementsAre(2, 2));
  EXPECT_THAT(ValuesOf((*two_rows)[0]), ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(ValuesOf((*two_rows)[1]), ElementsAre(3, 6));

  const auto one_row = read({6}, rows_first);
  ASSERT_TRUE(one_row.ok()) << one_row.status();
  EXPECT_THAT((*one_row)[2].shape, ElementsAre(1, 2));

  EXPECT_THAT(read({1, 2, 3}, rows_first).status().message(), HasSubstr("expected [rows, steps] or [steps]"));
  EXPECT_THAT(read({6}, {}).status().message(), HasSubstr("tensor X of int64 cannot become float32"));
  EXPECT_THAT(ReadAllChunks(Raw({1, 2}), rows_first, Bare(1)).status().message(),
              HasSubstr("tokens of the model is int64"));
}

std::string Wav(uint16_t channels, const std::vector<int16_t>& samples, uint32_t rate = 16000) {
  const auto little = [](uint64_t value, size_t bytes) { return std::string(reinterpret_cast<char*>(&value), bytes); };
  std::string data(reinterpret_cast<const char*>(samples.data()), 2 * samples.size());
  return "RIFF" + little(36 + data.size(), 4) + "WAVEfmt " + little(16, 4) + little(1, 2) + little(channels, 2) +
         little(rate, 4) + little(2 * channels * rate, 4) + little(2 * channels, 2) + little(16, 2) + "data" +
         little(data.size(), 4) + data;
}

std::vector<int16_t> Count(int16_t to) {
  std::vector<int16_t> values;
  for (int16_t k = 1; k <= to; ++k) values.push_back(static_cast<int16_t>(k * 256));
  return values;
}

// Of Wav, in units of 1/128.
std::vector<double> Units(const Tensor& x) {
  std::vector<double> values = ValuesOf(x);
  for (double& value : values) value *= 128;
  return values;
}

TEST(SourceTest, SuccessiveSamplesOfOneChannelFillAStep) {
  const auto chunks = ReadAllChunks(Wav(1, Count(10)), {.features = 3}, {.steps = 2});
  ASSERT_TRUE(chunks.ok()) << chunks.status();
  ASSERT_EQ(chunks->size(), 2);
  EXPECT_THAT((*chunks)[0].shape, ElementsAre(2, 1, 3));
  EXPECT_THAT(Units((*chunks)[0]), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT((*chunks)[1].shape, ElementsAre(1, 1, 3));
  EXPECT_THAT(Units((*chunks)[1]), ElementsAre(7, 8, 9));
}

TEST(SourceTest, ChannelsAreFeaturesOrRows) {
  const std::string stereo = Wav(2, Count(8));
  const auto features = ReadAllChunks(stereo, {.features = 2}, {});
  ASSERT_TRUE(features.ok()) << features.status();
  EXPECT_THAT((*features)[0].shape, ElementsAre(4, 1, 2));
  EXPECT_THAT(Units((*features)[0]), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  const auto rows = ReadAllChunks(stereo, {.rows = 2, .features = 2}, {});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT((*rows)[0].shape, ElementsAre(2, 2, 2));
  EXPECT_THAT(Units((*rows)[0]), ElementsAre(1, 3, 2, 4, 5, 7, 6, 8));
  const auto batch_first = ReadAllChunks(stereo, {.step_axis = 1, .rows = 2, .features = 1}, {});
  ASSERT_TRUE(batch_first.ok()) << batch_first.status();
  EXPECT_THAT(Units((*batch_first)[0]), ElementsAre(1, 3, 5, 7, 2, 4, 6, 8));
}

TEST(SourceTest, ARecordingTellsWhatItIs) {
  std::istringstream in(Wav(1, Count(10)));
  const auto source = OpenSource(in, "a.wav", {.features = 4}, {.sample_rate = 16000});
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_EQ((*source)->steps_per_second(), 4000);
  EXPECT_EQ((*source)->Introduction(),
            "a.wav: WAV, 16000 Hz, 1 channel, 16-bit PCM; 4 samples a step, 4000 steps a second");
  EXPECT_EQ((*source)->Remark(), "");
  while ((*source)->Next()->has_value()) {
  }
  EXPECT_EQ((*source)->Remark(), "a.wav: the last 2 samples fill no step of 4 and were left out");
}

TEST(SourceTest, WhatCannotBeRead) {
  const auto refusal = [](const std::string& bytes, const XShape& x, const Reading& reading) {
    const absl::Status status = ReadAllChunks(bytes, x, reading).status();
    EXPECT_TRUE(IsUsageError(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal(Raw({1, 2, 3}), {.features = 2}, Bare(4)), HasSubstr("4 bytes are left over"));
  EXPECT_THAT(refusal(Raw({1, 2, 3}), {}, Bare(4)), HasSubstr("--features"));
  EXPECT_THAT(refusal(FormatNpy(MakeTensor("", {1, 1, 1, 1}, std::vector<float>{1})), {}, {}),
              HasSubstr("[steps, rows, features]"));
  EXPECT_THAT(refusal(FormatNpy(MakeTensor("", {1}, std::vector<int64_t>{1})), {}, {}), HasSubstr("int64"));
  EXPECT_THAT(refusal("", {.rows = int64_t{1} << 20, .features = int64_t{1} << 24}, Bare(4)), HasSubstr("one message"));
  EXPECT_THAT(refusal(Raw({1, 2, 3}), {.features = 1}, {}),
              AllOf(HasSubstr("no .npy and no WAV file"), HasSubstr("--format=raw")));
  EXPECT_THAT(refusal("RIF", {.features = 1}, {}), HasSubstr("--format=raw"));
  EXPECT_THAT(refusal("", {.features = 1}, {}), HasSubstr("input is empty"));
  EXPECT_THAT(refusal("\x93NUMPY", {.features = 1}, {.sample_rate = 8000}), HasSubstr("--sample-rate is for WAV"));
  const std::string stereo = Wav(2, Count(8));
  EXPECT_THAT(refusal(stereo, {.features = 3}, {}),
              AllOf(HasSubstr("2 channels, but a step of the model takes 3 values"), HasSubstr("--rows=2")));
  EXPECT_THAT(refusal(stereo, {.rows = 3, .features = 2}, {}), HasSubstr("2 channels, but --rows=3"));
  EXPECT_THAT(refusal(stereo, {.features = 2}, {.sample_rate = 8000}),
              AllOf(HasSubstr("16000 samples a second, --sample-rate says 8000"), HasSubstr("sox")));
  EXPECT_THAT(refusal(stereo, {}, {}), HasSubstr("--features"));
}

}  // namespace
}  // namespace rnnserve::rnnctl
