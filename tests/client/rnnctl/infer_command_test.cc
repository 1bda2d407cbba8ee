// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/rnnctl/tensor_files.h"
#include "tests/client/rnnctl/run_rnnctl.h"

namespace rnnserve::rnnctl {
namespace {

using client::MakeTensor;
using testing::ElementsAre;
using testing::HasSubstr;

class InferCommandTest : public testing::Test {
 protected:
  InferCommandTest() {
    server_.on_infer = [this](const v1::InferRequest& request, v1::InferResponse& reply) {
      ++calls_;
      seen_ = request;
      v1::Tensor& y = *reply.add_outputs();
      y.set_name("Y");
      y.set_data_type(v1::FLOAT);
      y.add_shape(1);
      const float value = 0.25f;
      y.set_raw(&value, sizeof(value));
      reply.set_engine("cpu");
      return answer_;
    };
  }

  Outcome Infer(std::vector<std::string> words, const std::string& input = "") {
    words.insert(words.begin(), {"infer", "--server=" + server_.address()});
    return RunRnnctl(words, input);
  }
  // A refused command that never reached the server.
  std::string Usage(const std::vector<std::string>& words, const std::string& input = "") {
    const int before = calls_;
    const Outcome outcome = Infer(words, input);
    EXPECT_EQ(outcome.code, kUsage);
    EXPECT_EQ(calls_, before);
    EXPECT_THAT(outcome.err, HasSubstr("See rnnctl infer --help"));
    return outcome.err;
  }

  FakeServer server_;
  v1::InferRequest seen_;
  FakeStatus answer_;
  int calls_ = 0;
  const TemporaryFolder folder_;
  const std::string x_ = folder_.WriteNpy("x.npy", MakeTensor("", {1, 1, 2}, std::vector<float>{1, 2}));
};

TEST_F(InferCommandTest, BuildsARequestFromFlags) {
  const Outcome outcome = Infer({"--op",
                                 "LSTM",
                                 "--opset",
                                 "14",
                                 "--tensor",
                                 "X=" + x_,
                                 "--attr",
                                 "direction=bidirectional",
                                 "--attr",
                                 "clip=3.5",
                                 "--outputs",
                                 "Y,Y_h",
                                 "--engine",
                                 "reference",
                                 "--clip-cell-input=false",
                                 "--empty-row-state=initial",
                                 "--deterministic",
                                 "--priority",
                                 "-3",
                                 "--request-id",
                                 "r1",
                                 "--timeout",
                                 "10s"});
  ASSERT_EQ(outcome.code, kOk) << outcome.err;
  EXPECT_EQ(seen_.operator_().op_type(), "LSTM");
  EXPECT_EQ(seen_.operator_().opset(), 14);
  EXPECT_EQ(seen_.operator_().attributes().at("direction").s(), "bidirectional");
  EXPECT_EQ(seen_.operator_().attributes().at("clip").f(), 3.5f);
  EXPECT_EQ(seen_.inputs(0).name(), "X");
  EXPECT_THAT(seen_.inputs(0).shape(), ElementsAre(1, 1, 2));
  EXPECT_THAT(seen_.outputs(), ElementsAre("Y", "Y_h"));
  EXPECT_EQ(seen_.engine(), "reference");
  EXPECT_TRUE(seen_.options().has_clip_cell_input());
  EXPECT_FALSE(seen_.options().clip_cell_input());
  EXPECT_EQ(seen_.options().empty_row_state(), v1::INITIAL);
  EXPECT_TRUE(seen_.options().deterministic());
  EXPECT_FALSE(seen_.options().has_allow_reduced_precision());
  EXPECT_EQ(seen_.priority(), -3);
  EXPECT_EQ(seen_.request_id(), "r1");
  EXPECT_THAT(outcome.out, HasSubstr("Y     float32  [1]    0.25  0.25  0.25  0.25"));
}

TEST_F(InferCommandTest, WeightTypes) {
  for (const auto& [word, type] : {std::pair("as_given", v1::Options::AS_GIVEN),
                                   {"float16", v1::Options::FLOAT16},
                                   {"bfloat16", v1::Options::BFLOAT16},
                                   {"int8", v1::Options::INT8}}) {
    const std::string flag = std::string("--weight-type=") + word;
    ASSERT_EQ(Infer({"--model=vad", "--allow-reduced-precision", flag, "--tensor=X=" + x_}).code, kOk);
    EXPECT_EQ(seen_.options().weight_type(), type);
    EXPECT_TRUE(seen_.options().allow_reduced_precision());
  }
  const Outcome wrong = Infer({"--model=vad", "--weight-type=int4", "--tensor=X=" + x_});
  EXPECT_EQ(wrong.code, kUsage);
  EXPECT_THAT(wrong.err, HasSubstr("--weight-type=int4: expected as_given, float16, bfloat16 or int8"));
}

TEST_F(InferCommandTest, NamesModelsAndFingerprints) {
  ASSERT_EQ(Infer({"--model=vad:3", "--tensor=X=" + x_}).code, kOk);
  EXPECT_EQ(seen_.model().name(), "vad");
  EXPECT_EQ(seen_.model().version(), 3);
  ASSERT_EQ(Infer({"--model=vad"}).code, kOk);
  EXPECT_FALSE(seen_.model().has_version());
  ASSERT_EQ(Infer({"--fingerprint=beef"}).code, kOk);
  EXPECT_EQ(seen_.fingerprint(), "beef");
  ASSERT_EQ(Infer({"--op=RNN", "--op-version=7"}).code, kOk);
  EXPECT_EQ(seen_.operator_().version(), 7);
}

TEST_F(InferCommandTest, SendsAJsonFileOrStandardInput) {
  const std::string json = R"({"model": {"name": "vad"}, "inputs": [{"name": "X", "data_type": "FLOAT", "shape": [1],
                               "raw": "AACAPw==", "float_data": [1]}]})";
  ASSERT_EQ(Infer({folder_.Write("r.json", json)}).code, kOk);
  EXPECT_EQ(seen_.inputs(0).raw().size(), 4u);
  EXPECT_EQ(seen_.inputs(0).float_data(0), 1);  // as it is: the server refuses both, not rnnctl
  seen_.Clear();
  ASSERT_EQ(Infer({"-"}, json).code, kOk);
  EXPECT_EQ(seen_.model().name(), "vad");
}

TEST_F(InferCommandTest, PrintsJsonAndWritesFiles) {
  EXPECT_THAT(Infer({"--model=vad", "--json"}).out, HasSubstr("\"float_data\""));
  const Outcome outcome = Infer({"--model=vad", "--out", folder_.Path("results")});
  ASSERT_EQ(outcome.code, kOk) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("results/Y.npy"));
  EXPECT_THAT(client::ValuesOf(*ParseNpy(ReadFile(folder_.Path("results/Y.npy")).value())), ElementsAre(0.25));
  EXPECT_EQ(Infer({"--model=vad", "--out", x_}).code, kCannotWrite);
}

TEST_F(InferCommandTest, UsageMistakesAreNotSent) {
  EXPECT_THAT(Usage({}), HasSubstr("what to run is missing"));
  EXPECT_THAT(Usage({"--op=LSTM", "--model=vad"}), HasSubstr("exclude each other"));
  EXPECT_THAT(Usage({"--op=LSTM"}), HasSubstr("needs one of --opset"));
  EXPECT_THAT(Usage({"--op=LSTM", "--opset=14", "--op-version=14"}), HasSubstr("only one of"));
  EXPECT_THAT(Usage({"--op=LSTM", "--opset=x"}), HasSubstr("--opset=x: expected a whole number of at least 1"));
  EXPECT_THAT(Usage({"--model=vad", "--attr=clip=1"}), HasSubstr("--attr belongs to --op"));
  EXPECT_THAT(Usage({"--model=vad:0"}), HasSubstr("NAME:VERSION"));
  EXPECT_THAT(Usage({"--model=:1"}), HasSubstr("NAME:VERSION"));
  EXPECT_THAT(Usage({"--model=vad", "--priority=101"}), HasSubstr("from -100 to 100"));
  EXPECT_THAT(Usage({"--model=vad", "--clip-cell-input=maybe"}), HasSubstr("expected true or false"));
  EXPECT_THAT(Usage({"--model=vad", "--empty-row-state=none"}), HasSubstr("zeros or initial"));
  EXPECT_THAT(Usage({"--model=vad", "--timeout=10"}), HasSubstr("with its unit"));
  EXPECT_THAT(Usage({"--model=vad", "--max-reply-mib=4096"}), HasSubstr("from 1 to 2047"));
  EXPECT_THAT(Usage({"--model=vad", "--tensor=X=none.npy"}), HasSubstr("--tensor X: cannot read none.npy"));
  EXPECT_THAT(Usage({"a.json", "b.json"}), HasSubstr("what is b.json?"));
  EXPECT_THAT(Usage({"a.json", "--outputs=Y"}), HasSubstr("--outputs cannot be combined with a request file"));
  EXPECT_THAT(Usage({folder_.Path("none.json")}), HasSubstr("cannot read"));
  EXPECT_THAT(Usage({"-"}, "{\"modle\": 1}"), HasSubstr("modle"));
  EXPECT_THAT(Usage({"--modle=vad"}), HasSubstr("did you mean --model?"));
}

TEST_F(InferCommandTest, RefusalsShowCodeFieldAndReason) {
  answer_ = {3, "X has 40 columns", {FieldDetail("inputs[X].shape", "X has 40 columns")}};
  Outcome outcome = Infer({"--model=vad"});
  EXPECT_EQ(outcome.code, kRefused);
  EXPECT_EQ(outcome.err, "error: INVALID_ARGUMENT: X has 40 columns\n  field: inputs[X].shape\n");
  EXPECT_EQ(outcome.out, "");
  answer_ = {5, "no model \x1b[31mvad", {ReasonDetail("MODEL_UNKNOWN")}};
  outcome = Infer({"--model=vad"});
  EXPECT_EQ(outcome.code, kRefused);
  EXPECT_EQ(outcome.err, "error: NOT_FOUND: no model ?[31mvad\n  reason: MODEL_UNKNOWN\n");
  answer_ = {4, "too late"};
  EXPECT_EQ(Infer({"--model=vad"}).code, kTimedOut);
}

TEST(CommandTest, NoServerIsAnExitCodeOfItsOwn) {
  std::string address;
  {
    FakeServer gone;
    address = gone.address();
  }
  const Outcome outcome = RunRnnctl({"infer", "--model=vad", "--server", address});
  EXPECT_EQ(outcome.code, kCannotConnect);
  EXPECT_THAT(outcome.err, HasSubstr("cannot connect to " + address));
  EXPECT_THAT(outcome.err, HasSubstr("--server"));
}

TEST(CommandTest, AnArrayInPlaceOfARequest) {
  const TemporaryFolder folder;
  const std::string x = folder.WriteNpy("x.npy", client::MakeTensor("", {1}, std::vector<float>{1}));
  const Outcome outcome = RunRnnctl({"infer", x, "--server=h:1"});
  EXPECT_EQ(outcome.code, kUsage);
  EXPECT_THAT(outcome.err, HasSubstr("--tensor NAME=" + x));
}

TEST(CommandTest, AnAddressThatCannotBeOne) {
  for (const auto& [address, why] : {std::pair("host", "has no port"), {"http://h:1", "is a URL"}, {"", "is empty"}}) {
    const Outcome outcome = RunRnnctl({"health", std::string("--server=") + address});
    EXPECT_EQ(outcome.code, kUsage) << address;
    EXPECT_THAT(outcome.err, testing::AllOf(HasSubstr("--server"), HasSubstr(why), HasSubstr("HOST:PORT")));
  }
}

TEST(CommandTest, HelpAndUnknownCommands) {
  EXPECT_EQ(RunRnnctl({}).code, kUsage);
  EXPECT_THAT(RunRnnctl({"help"}).out, HasSubstr("models load"));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"help", "infer"}, {"infer", "--help"}, {"infer", "x", "-h"}}) {
    const Outcome outcome = RunRnnctl(words);
    EXPECT_EQ(outcome.code, kOk);
    EXPECT_THAT(outcome.out, HasSubstr("Examples:"));
    EXPECT_THAT(outcome.out, HasSubstr("Exit codes:"));
    EXPECT_THAT(outcome.out, HasSubstr("--tensor=NAME=FILE"));
  }
  EXPECT_THAT(RunRnnctl({"help", "models", "load"}).out, HasSubstr("--repository"));
  EXPECT_THAT(RunRnnctl({"models", "--help"}).out, HasSubstr("rnnctl models ls"));
  EXPECT_THAT(RunRnnctl({"infr"}).err, HasSubstr("did you mean infer?"));
  EXPECT_THAT(RunRnnctl({"models"}).err, HasSubstr("rnnctl models unload"));
  EXPECT_THAT(RunRnnctl({"models", "frob"}).err, HasSubstr("unknown command frob"));
  EXPECT_EQ(RunRnnctl({"models", "frob"}).code, kUsage);
  EXPECT_THAT(RunRnnctl({"version"}).out, testing::MatchesRegex("rnnctl [0-9.]+\n"));
}

}  // namespace
}  // namespace rnnserve::rnnctl
