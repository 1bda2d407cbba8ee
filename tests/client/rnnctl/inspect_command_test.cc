// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/rnnctl/npy.h"
#include "tests/client/rnnctl/run_rnnctl.h"
#include "tests/onnx_file/onnx_fixture.h"

namespace rnnserve::rnnctl {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string ReadBytes(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

class InspectCommandTest : public testing::Test {
 protected:
  std::string Write(const onnx::ModelProto& model, const std::string& name = "model.onnx") const {
    return folder_.Write(name, model.SerializeAsString());
  }
  // Two nodes, so that no server takes the file as it is: "rnn" and one that lacks its W.
  std::string WriteTwo(const std::string& first = "rnn", const std::string& second = "broken") const {
    onnx::ModelProto model = SmallModel("GRU", 14, 2);
    onnx::NodeProto& node = *model.mutable_graph()->mutable_node(0);
    node.set_name(first);
    AddAttribute(node, "linear_before_reset", onnx::AttributeProto::INT).set_i(1);
    AddAttribute(node, "layout", onnx::AttributeProto::INT).set_i(0);
    onnx::NodeProto& other = *model.mutable_graph()->add_node();
    other = node;
    other.set_name(second);
    other.set_input(1, "input.1");
    other.set_output(0, "out.2");
    other.set_output(1, "h_n.2");
    return Write(model);
  }
  std::string Usage(const std::vector<std::string>& words) const {
    const Outcome outcome = RunRnnctl(words);
    EXPECT_EQ(outcome.code, kUsage) << outcome.out << outcome.err;
    return outcome.err;
  }

  const TemporaryFolder folder_;
};

TEST_F(InspectCommandTest, Table) {
  const std::string path = WriteTwo();
  const Outcome outcome = RunRnnctl({"inspect", path});
  ASSERT_EQ(outcome.code, kOk) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("opset 14, 2 nodes, 2 of them recurrent"));
  EXPECT_THAT(outcome.out, HasSubstr("as it is: no model; "));
  // W [2, 3, 2], R [2, 3, 1], B [2, 6] in floats; H of two directions.
  EXPECT_THAT(outcome.out, HasSubstr("1  GRU-14    2  1  bidirectional  float32  120      8      extract  rnn\n"));
  EXPECT_THAT(outcome.out, HasSubstr("2  GRU       -  -  -              -        -        -      no       broken\n"));
  EXPECT_THAT(outcome.out, HasSubstr("direction=bidirectional linear_before_reset=1\n"));
  EXPECT_THAT(outcome.out, HasSubstr("initial_h      graph input \"h0\"\n"));
  EXPECT_THAT(outcome.out, HasSubstr("rnnctl extract " + path + " --node rnn -o FOLDER/NAME/1/model.onnx\n"));
  EXPECT_THAT(outcome.out, HasSubstr("cannot load    W (input 1, \"input.1\") is a graph input"));
}

TEST_F(InspectCommandTest, AModelNeedsNoExtraction) {
  const Outcome outcome = RunRnnctl({"inspect", Write(SmallModel("LSTM", 14))});
  ASSERT_EQ(outcome.code, kOk) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("as it is: a model\n"), HasSubstr("  yes    "), Not(HasSubstr("extract"))));
}

TEST_F(InspectCommandTest, AllNodesInTheWay) {
  onnx::ModelProto model = SmallModel("GRU", 14);
  onnx::GraphProto& graph = *model.mutable_graph();
  const std::string x = graph.node(0).input(0);
  for (const char* name : {"first", "second"}) {
    onnx::NodeProto& node = *graph.add_node();
    node.set_name(name);
    node.set_op_type("CumSum");  // along time
    for (const char* input : {x.c_str(), "axis"}) node.add_input(input);
    node.add_output(absl::StrCat("sum of ", name));
    graph.add_output()->set_name(node.output(0));
  }
  graph.add_output()->set_name(graph.node(0).output(0));
  onnx::TensorProto& axis = *graph.add_initializer();
  axis.set_name("axis");
  axis.set_data_type(onnx::TensorProto::INT64);
  axis.add_int64_data(0);
  const std::string path = Write(model);
  const Outcome outcome = RunRnnctl({"inspect", path});
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("as it is: no model\nin the way: "), HasSubstr("first"), HasSubstr("second"),
                                 HasSubstr("in parts: rnnctl split " + path)));
  EXPECT_THAT(RunRnnctl({"inspect", path, "--json"}).out, HasSubstr("\"in_the_way\""));
}

TEST_F(InspectCommandTest, AFileWithoutRecurrentNodes) {
  onnx::ModelProto model = SmallModel("LSTM", 14);
  model.mutable_graph()->mutable_node(0)->set_op_type("Relu");
  const Outcome outcome = RunRnnctl({"inspect", Write(model)});
  EXPECT_EQ(outcome.code, kOk) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("1 nodes, 0 of them recurrent"));
}

TEST_F(InspectCommandTest, Json) {
  const Outcome outcome = RunRnnctl({"inspect", WriteTwo("a \"name\"\n\xc3\xa9\xff"), "--json"});
  ASSERT_EQ(outcome.code, kOk) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("\"name\": \"a \\\"name\\\"\\n\xc3\xa9\xef\xbf\xbd\""));
  EXPECT_THAT(outcome.out, HasSubstr("\"loads\": \"extract\""));
  EXPECT_THAT(outcome.out, HasSubstr("\"weight_bytes\": 120"));
  EXPECT_THAT(outcome.out, HasSubstr("\"loads\": \"no\""));
}

TEST_F(InspectCommandTest, Extract) {
  const std::string path = WriteTwo();
  const std::string target = folder_.Path("models/x/1/model.onnx");
  const Outcome outcome = RunRnnctl({"extract", path, "--node", "rnn", "-o", target});
  ASSERT_EQ(outcome.code, kOk) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("wrote " + target));
  EXPECT_THAT(outcome.out, HasSubstr("a server with --models=" + folder_.Path("models") + " has it as x:1\n"));
  EXPECT_THAT(RunRnnctl({"inspect", target}).out, HasSubstr("as it is: a model\n"));
  // By number, and in place of an older file.
  const std::string first = ReadBytes(target);
  EXPECT_EQ(RunRnnctl({"extract", path, "--node=1", "--out=" + target}).code, kOk);
  EXPECT_EQ(ReadBytes(target), first);
  EXPECT_FALSE(std::filesystem::exists(folder_.Path("models/x/1/.model.onnx.tmp")));
  // Where no server looks.
  EXPECT_THAT(RunRnnctl({"extract", path, "--node=1", "-o", folder_.Path("x.onnx")}).out,
              HasSubstr("a server reads it as NAME/VERSION/model.onnx of its folder --models\n"));
}

TEST_F(InspectCommandTest, NodesThatShareAName) {
  const std::string path = WriteTwo("same", "same");
  EXPECT_THAT(RunRnnctl({"inspect", path}).out, HasSubstr("--node 1 -o"));
  EXPECT_THAT(Usage({"extract", path, "--node=same", "-o", folder_.Path("x")}),
              HasSubstr("2 nodes are called same; give --node one of the numbers 1, 2"));
}

TEST_F(InspectCommandTest, WhatCannotBeExtracted) {
  const std::string path = WriteTwo();
  const std::string target = folder_.Path("x/model.onnx");
  EXPECT_THAT(Usage({"extract", path, "--node=broken", "-o", target}),
              AllOf(HasSubstr(path), HasSubstr("GRU broken: W (input 1, \"input.1\") is a graph input")));
  EXPECT_THAT(Usage({"extract", path, "--node=none", "-o", target}),
              AllOf(HasSubstr("no recurrent node is called none"), HasSubstr("\n  1  GRU  rnn\n  2  GRU  broken\n")));
  EXPECT_THAT(Usage({"extract", path, "--node=3", "-o", target}), HasSubstr("no recurrent node is called 3"));
  EXPECT_THAT(Usage({"extract", path, "-o", target}), HasSubstr("--node is missing"));
  EXPECT_THAT(Usage({"extract", path, "--node=rnn"}), HasSubstr("-o FOLDER/NAME/1/model.onnx"));
  EXPECT_THAT(Usage({"extract", path, "--node=rnn", "-o", path}), HasSubstr("names the file that is read"));
  EXPECT_FALSE(std::filesystem::exists(target));
  const std::string occupied = folder_.Write("file", "");
  EXPECT_EQ(RunRnnctl({"extract", path, "--node=rnn", "-o", occupied + "/model.onnx"}).code, kCannotWrite);
  EXPECT_EQ(RunRnnctl({"extract", path, "--node=rnn", "-o", "/proc/none/model.onnx"}).code, kCannotWrite);
}

TEST_F(InspectCommandTest, Split) {
  onnx::ModelProto model = SmallModel("GRU", 14);
  onnx::GraphProto& graph = *model.mutable_graph();
  const std::string y = graph.node(0).output(0);
  EXPECT_THAT(Usage({"split", Write(model)}), HasSubstr("computes nothing that the graph's outputs need"));
  graph.add_output()->set_name(y);
  const std::string path = Write(model);
  const std::string target = folder_.Path("parts");
  std::filesystem::create_directory(target);
  std::ofstream(target + "/after.onnx") << "of an earlier run";
  const Outcome outcome = RunRnnctl({"split", path, "--output", target});
  ASSERT_EQ(outcome.code, kOk) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr(target + "/served.onnx"), HasSubstr("nothing is in the way")));
  EXPECT_FALSE(std::filesystem::exists(target + "/after.onnx"));
  EXPECT_THAT(RunRnnctl({"inspect", target + "/served.onnx"}).out, HasSubstr("as it is: a model\n"));
  EXPECT_THAT(RunRnnctl({"split", path, "-o", target, "--json"}).out, HasSubstr("\"runs_in\": \"rnnserve\""));
  EXPECT_THAT(Usage({"split", target + "/served.onnx", "-o", target}), HasSubstr("is the file that is read"));
  EXPECT_THAT(Usage({"split", path, "--node=none", "-o", target}), HasSubstr("no recurrent node is called none"));
  graph.mutable_node(0)->set_input(1, "nowhere");
  EXPECT_THAT(Usage({"split", Write(model), "-o", target}), HasSubstr("W (input 1, \"nowhere\")"));
}

TEST_F(InspectCommandTest, Precision) {
  const std::string path = WriteTwo();
  const Outcome table = RunRnnctl({"inspect", path, "--precision"});
  ASSERT_EQ(table.code, kOk) << table.err;
  EXPECT_THAT(table.out,
              HasSubstr("#  WEIGHTS   LARGEST ERROR  MEAN ERROR  PACKED BYTES  US TO PACK  US A STEP  NODE\n"));
  for (const char* kind : {"AS_GIVEN", "FLOAT16", "BFLOAT16", "INT8"}) {
    EXPECT_THAT(table.out, testing::ContainsRegex(
                               absl::StrCat("\n1  ", kind, " +[0-9.e-]+ +[0-9.e-]+ +[0-9]+ +[0-9]+ +[0-9.]+ +rnn\n")));
  }
  EXPECT_THAT(table.out, Not(HasSubstr("2  AS_GIVEN")));  // it cannot load
  const std::string x = folder_.Write("x.npy", FormatNpy(client::MakeTensor("", {3, 2}, std::vector<float>(6, 0.5F))));
  const Outcome json = RunRnnctl({"inspect", path, "--precision", "--input", x, "--json"});
  ASSERT_EQ(json.code, kOk) << json.err;
  EXPECT_THAT(json.out, AllOf(HasSubstr("\"weight_type\": \"BFLOAT16\""), HasSubstr("\"largest_error\": "),
                              HasSubstr("\"packed_bytes\": "), HasSubstr("\"step_microseconds\": ")));
  EXPECT_THAT(json.out, testing::ContainsRegex("\"packing_microseconds\": [0-9]*[1-9]"));
  EXPECT_THAT(RunRnnctl({"inspect", path, "--json"}).out, Not(HasSubstr("weight_type")));
}

TEST_F(InspectCommandTest, PrecisionRefuses) {
  const std::string path = WriteTwo();
  const std::string wrong = folder_.Write("x.npy", FormatNpy(client::MakeTensor("", {2, 3}, std::vector<float>(6))));
  EXPECT_THAT(Usage({"inspect", path, "--precision", "--input", wrong}), HasSubstr("--input is of no node's shape"));
  EXPECT_THAT(Usage({"inspect", path, "--input", wrong}), HasSubstr("--input is for --precision"));
  EXPECT_THAT(Usage({"inspect", path, "--precision", "--input", path}), HasSubstr("model.onnx: "));
  onnx::ModelProto model = SmallModel("GRU", 14);
  model.mutable_graph()->mutable_initializer(1)->set_float_data(0, std::numeric_limits<float>::infinity());
  EXPECT_THAT(RunRnnctl({"inspect", Write(model), "--precision"}).out,
              AllOf(HasSubstr("INT8      refused: R has NaN"), HasSubstr("FLOAT16   refused: R has NaN")));
}

TEST_F(InspectCommandTest, WrongFilesAndFlags) {
  EXPECT_THAT(Usage({"inspect"}), HasSubstr("the ONNX file is missing"));
  EXPECT_THAT(Usage({"inspect", "a", "b"}), HasSubstr("unexpected argument b"));
  EXPECT_THAT(Usage({"inspect", "/nowhere/x.onnx"}), HasSubstr("/nowhere/x.onnx: No such file"));
  EXPECT_THAT(Usage({"inspect", folder_.Path("")}), HasSubstr("not a regular file"));
  EXPECT_THAT(Usage({"inspect", folder_.Write("text", "no model")}), HasSubstr("text: is no ONNX model"));
}

TEST_F(InspectCommandTest, ALinkToAModelIsFollowed) {
  const std::string path = WriteTwo();
  std::filesystem::create_directory(folder_.Path("elsewhere"));
  std::filesystem::create_symlink(path, folder_.Path("elsewhere/link.onnx"));
  EXPECT_EQ(RunRnnctl({"inspect", folder_.Path("elsewhere/link.onnx")}).code, kOk);
}

}  // namespace
}  // namespace rnnserve::rnnctl
