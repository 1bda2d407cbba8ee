// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/show.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace rnnserve::rnnctl {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ShowTest, ColumnsAlignWithoutTrailingSpaces) {
  EXPECT_EQ(FormatTable({{"A", "LONG", "C"}, {"long", "b", ""}, {"x"}}), "A     LONG  C\nlong  b\nx\n");
  EXPECT_EQ(FormatTable({}), "");
}

TEST(ShowTest, ControlCharactersDoNotReachTheTerminal) {
  EXPECT_EQ(Printable("a\x1b[2Jb\r\n\tc\x7f\xc3\xa9"), "a?[2Jb?\n\tc?\xc3\xa9");
}

TEST(ShowTest, TimesCarryIntoTheNextUnit) {
  using namespace std::chrono_literals;
  const std::pair<std::chrono::nanoseconds, const char*> kTimes[] = {
      {-5s, "0.0s"},           {0s, "0.0s"},        {49'999'999ns, "0.0s"},      {50ms, "0.0s"},
      {51ms, "0.1s"},          {9'960ms, "10.0s"},  {59'949'999'999ns, "59.9s"}, {59'960ms, "1m00s"},
      {60s, "1m00s"},          {60'499ms, "1m00s"}, {119'600ms, "2m00s"},        {599'499ms, "9m59s"},
      {599'600ms, "10m00s"},   {600s, "10m00s"},    {3'599'499ms, "59m59s"},     {3'599'600ms, "1h00m"},
      {3'629s, "1h00m"},       {3'631s, "1h01m"},   {7'199s, "2h00m"},           {24h, "24h00m"},
      {86'399'999ms, "24h00m"}};
  for (const auto& [time, text] : kTimes) EXPECT_EQ(ShowTime(time), text) << time.count();
}

TEST(ShowTest, BytesCarryIntoTheNextUnit) {
  const std::pair<int64_t, const char*> kSizes[] = {{0, "0 B"},
                                                    {1023, "1023 B"},
                                                    {1024, "1.0 KiB"},
                                                    {1048524, "1023.9 KiB"},
                                                    {1048525, "1.0 MiB"},
                                                    {393216 * 4, "1.5 MiB"},
                                                    {int64_t{16} << 30, "16.0 GiB"},
                                                    {INT64_MAX, "8388608.0 TiB"}};
  for (const auto& [bytes, text] : kSizes) EXPECT_EQ(ShowBytes(bytes), text) << bytes;
}

TEST(ShowTest, OutputsInOneLineEach) {
  client::InferResult result;
  result.outputs = {client::MakeTensor("Y", {2, 3}, std::vector<float>{1, -2, 0.5f, 4, 5, 6.5f}),
                    client::MakeTensor("Y_h", {0, 3}, std::vector<float>{})};
  result.engine = "cpu";
  result.compute_time = std::chrono::microseconds(1500);
  result.largest_batch = 3;
  result.fingerprint = "ab12";
  result.warnings = {"read differently elsewhere"};
  EXPECT_EQ(ShowResult(result, {}, 2),
            "NAME  TYPE     SHAPE   MIN  MAX  MEAN  VALUES\n"
            "Y     float32  [2, 3]  -2   6.5  2.5   1 -2 ...\n"
            "Y_h   float32  [0, 3]  -    -    -\n"
            "\n"
            "engine cpu, queue 0.000 ms, compute 1.500 ms, largest batch 3\n"
            "fingerprint ab12\n"
            "warning: read differently elsewhere\n");
  EXPECT_THAT(ShowResult(result, {"d/Y.npy", "d/Y_h.npy"}, 2), HasSubstr("d/Y.npy"));
  EXPECT_THAT(ShowResult(result, {}, 6), Not(HasSubstr("...")));
}

TEST(ShowTest, NaNShowsInTheMean) {
  client::InferResult result;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  result.outputs = {client::MakeTensor("Y", {3}, std::vector<float>{nan, 1, 2})};
  EXPECT_THAT(ShowResult(result, {}, 0), HasSubstr("Y     float32  [3]    1    2    nan"));
}

TEST(ShowTest, ModelsAndFailures) {
  client::ModelInfo model;
  model.name = "vad";
  model.version = 2;
  model.op.domain = "openvino";
  model.op.op_type = "GRUSequence";
  model.op.version = 5;
  model.op.attributes["clip"] = 3.5f;
  model.fingerprint = "0123456789abcdef";
  model.options.clip_cell_input = false;
  model.inputs = {{"X", DataType::kFloat, {"N", "T", "4"}, false}, {"h", DataType::kFloat, {"N"}, true}};
  const std::string list = ShowModels({{model}, {{"bad/1/model.onnx", "cut short"}}});
  EXPECT_THAT(list, HasSubstr("vad   2        openvino.GRUSequence-5"));
  EXPECT_THAT(list, HasSubstr("0123456789ab\n"));
  EXPECT_THAT(list, HasSubstr("not loaded: bad/1/model.onnx: cut short\n"));
  EXPECT_EQ(ShowModels({}), "no models loaded\n");
  const std::string one = ShowModel(model);
  EXPECT_THAT(one, HasSubstr("attribute        clip=3.5\n"));
  EXPECT_THAT(one, HasSubstr("clip_cell_input  false\n"));
  EXPECT_THAT(one, HasSubstr("input  X  float32  [N, T, 4]\n"));
  EXPECT_THAT(one, HasSubstr("input  h  float32  [N]        optional\n"));
}

TEST(ShowTest, LayersOfAStack) {
  client::ModelInfo model;
  model.name = "tagger";
  OperatorDef layer;
  layer.op_type = "LSTM";
  layer.opset = 14;
  layer.attributes["direction"] = std::string("bidirectional");
  model.layers = {layer, layer};
  EXPECT_THAT(ShowModels({{model}, {}}), HasSubstr("LSTM (opset 14), 2 layers  "));
  EXPECT_THAT(ShowModel(model), HasSubstr("layer 1      direction=bidirectional\n"));
  model.layers[1].op_type = "GRU";
  EXPECT_THAT(ShowModel(model), HasSubstr("LSTM (opset 14), GRU (opset 14)\n"));
}

}  // namespace
}  // namespace rnnserve::rnnctl
