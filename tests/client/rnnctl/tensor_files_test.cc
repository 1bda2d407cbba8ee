// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/tensor_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/rnnctl/run_rnnctl.h"

namespace rnnserve::rnnctl {
namespace {

using client::MakeTensor;
using testing::ElementsAre;
using testing::HasSubstr;

std::string WhyRefused(const std::vector<std::string>& flags, std::optional<std::string> cast = std::nullopt) {
  const auto tensors = ReadTensors(flags, cast);
  EXPECT_FALSE(tensors.ok());
  EXPECT_TRUE(IsUsageError(tensors.status()));
  return std::string(tensors.status().message());
}

TEST(TensorFilesTest, NamesAndCastsWhatItReads) {
  const TemporaryFolder folder;
  const std::vector<std::string> flags = {
      "X=" + folder.WriteNpy("x=1.npy", MakeTensor("", {2}, std::vector<double>{1, 2})),
      "sequence_lengths=" + folder.WriteNpy("l.npy", MakeTensor("", {1}, std::vector<int64_t>{2}))};
  const auto tensors = ReadTensors(flags, "float32");
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ((*tensors)[0].name, "X");
  EXPECT_EQ((*tensors)[0].type, DataType::kFloat);
  EXPECT_THAT(client::ValuesOf((*tensors)[0]), ElementsAre(1, 2));
  EXPECT_EQ((*tensors)[1].type, DataType::kInt64);
  EXPECT_EQ((*ReadTensors(flags, std::nullopt))[0].type, DataType::kDouble);
}

TEST(TensorFilesTest, SequenceLensBecomeInt32IfTheyFit) {
  const TemporaryFolder folder;
  const auto read = [&](int64_t value) {
    const std::vector<std::string> flags = {"sequence_lens=" +
                                            folder.WriteNpy("l.npy", MakeTensor("", {1}, std::vector<int64_t>{value}))};
    return ReadTensors(flags, std::nullopt).value()[0];
  };
  EXPECT_EQ(read(5).type, DataType::kInt32);
  EXPECT_THAT(client::ValuesOf(read(-5)), ElementsAre(-5));
  EXPECT_EQ(read(int64_t{1} << 31).type, DataType::kInt64);
}

TEST(TensorFilesTest, OutputsOfAnyNameBecomeFilesOfTheFolder) {
  const TemporaryFolder folder;
  const auto named = [](const std::string& name) { return MakeTensor(name, {1}, std::vector<float>{1}); };
  const std::string out = folder.Path("out");
  const auto paths = WriteTensors({named("Y"), named("/Sigmoid_output_0"), named("../x:0"), named("")}, out);
  ASSERT_TRUE(paths.ok()) << paths.status();
  EXPECT_THAT(*paths,
              ElementsAre(out + "/Y.npy", out + "/_Sigmoid_output_0.npy", out + "/_.._x_0.npy", out + "/_.npy"));
  EXPECT_THAT(WriteTensors({named("a/b"), named("a:b")}, out).status().message(), HasSubstr("two outputs would be"));
}

TEST(TensorFilesTest, MistakesNameTheTensorAndTheFile) {
  const TemporaryFolder folder;
  const std::string text = folder.Write("x.txt", "1 2 3");
  EXPECT_THAT(WhyRefused({"X"}), HasSubstr("NAME=FILE.npy"));
  EXPECT_THAT(WhyRefused({"X="}), HasSubstr("NAME=FILE.npy"));
  EXPECT_THAT(WhyRefused({"X=" + folder.Path("none.npy")}),
              HasSubstr("--tensor X: cannot read " + folder.Path("none.npy")));
  EXPECT_THAT(WhyRefused({"X=" + folder.Path("")}), HasSubstr("is a folder"));
  EXPECT_THAT(WhyRefused({"X=" + text}), HasSubstr("--tensor X: " + text + " is no .npy file"));
  const std::string good = folder.WriteNpy("x.npy", MakeTensor("", {1}, std::vector<float>{1}));
  EXPECT_THAT(WhyRefused({"X=" + good, "X=" + good}), HasSubstr("X is given twice"));
  EXPECT_THAT(WhyRefused({"X=" + good}, "int8"), HasSubstr("--cast int8: expected float16"));
}

TEST(TensorFilesTest, WritesAFilePerOutput) {
  const TemporaryFolder folder;
  const auto paths = WriteTensors({MakeTensor("Y_h", {2}, std::vector<float>{1, 2})}, folder.Path("new/deep"));
  ASSERT_TRUE(paths.ok()) << paths.status();
  EXPECT_THAT(*paths, ElementsAre(folder.Path("new/deep/Y_h.npy")));
  const auto back = ParseNpy(ReadFile(paths->at(0)).value());
  EXPECT_THAT(client::ValuesOf(back.value()), ElementsAre(1, 2));
}

TEST(TensorFilesTest, AServerCannotChooseWhereFilesGo) {
  const TemporaryFolder folder;
  for (const char* name : {"../Y", "/Y", "a/b", "", ".hidden", "Y\n"}) {
    const auto paths = WriteTensors({MakeTensor(name, {1}, std::vector<float>{1})}, folder.Path("out"));
    ASSERT_TRUE(paths.ok()) << paths.status();
    const std::filesystem::path path = paths->front();
    EXPECT_EQ(path.parent_path(), folder.Path("out"));
    EXPECT_THAT(path.filename().string(), testing::MatchesRegex("[a-zA-Z_][a-zA-Z_.]*[.]npy"));
  }
  const std::string file = folder.Write("file", "");
  EXPECT_TRUE(IsOutputError(WriteTensors({}, file + "/below").status()));
}

}  // namespace
}  // namespace rnnserve::rnnctl
