// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/rnnctl/transfer.h"
#include "tests/client/rnnctl/run_rnnctl.h"

namespace rnnserve::rnnctl {
namespace {

using client::MakeTensor;
using testing::HasSubstr;

class ModelCommandsTest : public testing::Test {
 protected:
  ModelCommandsTest() {
    info_.set_name("vad");
    info_.set_version(2);
    info_.mutable_operator_()->set_op_type("GRU");
    info_.mutable_operator_()->set_version(14);
    info_.set_source("upload");
    server_.on_load = [this](const v1::LoadRequest& request, v1::LoadResponse& reply) {
      loaded_ = request;
      *reply.mutable_model() = info_;
      return answer_;
    };
    server_.on_upload = [this](const v1::UploadRequest::Begin& begin, const std::string& file,
                               v1::LoadResponse& reply) {
      begin_ = begin;
      file_ = file;
      *reply.mutable_model() = info_;
      return answer_;
    };
    server_.on_download = [this](const v1::DownloadRequest& request, std::vector<v1::DownloadResponse>& replies) {
      asked_for_ = request;
      *replies.emplace_back().mutable_begin()->mutable_model() = info_;
      replies[0].mutable_begin()->set_file_bytes(static_cast<int64_t>(file_.size()));
      replies.emplace_back().set_chunk(file_);
      return answer_;
    };
    server_.on_unload = [this](const v1::UnloadRequest& request) {
      unloaded_ = request;
      return answer_;
    };
    server_.on_get = [this](const v1::GetModelRequest& request, v1::GetModelResponse& reply) {
      asked_ = request;
      *reply.mutable_model() = info_;
      return answer_;
    };
    server_.on_list = [this](v1::ListModelsResponse& reply) {
      *reply.add_models() = info_;
      return answer_;
    };
  }

  Outcome Do(std::vector<std::string> words) {
    words.push_back("--server=" + server_.address());
    return RunRnnctl(words);
  }
  std::string Usage(const std::vector<std::string>& words) {
    const Outcome outcome = Do(words);
    EXPECT_EQ(outcome.code, kUsage);
    return outcome.err;
  }

  FakeServer server_;
  v1::ModelInfo info_;
  FakeStatus answer_;
  v1::LoadRequest loaded_;
  v1::UploadRequest::Begin begin_;
  v1::DownloadRequest asked_for_;
  std::string file_;
  v1::UnloadRequest unloaded_;
  v1::GetModelRequest asked_;
  const TemporaryFolder folder_;
  const std::string w_ = folder_.WriteNpy("w.npy", MakeTensor("", {1, 3, 1}, std::vector<float>{1, 2, 3}));
};

TEST_F(ModelCommandsTest, ListsAndShows) {
  EXPECT_THAT(Do({"models", "ls"}).out, HasSubstr("vad   2        GRU-14"));
  EXPECT_THAT(Do({"models", "ls", "--json"}).out, HasSubstr("\"name\": \"vad\""));
  EXPECT_THAT(Do({"models", "show", "vad:2"}).out, HasSubstr("operator     GRU-14"));
  EXPECT_EQ(asked_.model().version(), 2);
  EXPECT_THAT(Do({"models", "show", "vad", "--json"}).out, HasSubstr("\"source\": \"upload\""));
  EXPECT_FALSE(asked_.model().has_version());
}

TEST_F(ModelCommandsTest, LoadsWeightsOrFromTheRepository) {
  const Outcome outcome = Do({"models", "load", "vad:2", "--op=GRU", "--opset=14", "--tensor=W=" + w_, "--engine=cpu",
                              "--attr=linear_before_reset=1", "--empty-row-state=initial"});
  ASSERT_EQ(outcome.code, kOk) << outcome.err;
  EXPECT_EQ(loaded_.name(), "vad");
  EXPECT_EQ(loaded_.version(), 2);
  EXPECT_EQ(loaded_.inline_().operator_().attributes().at("linear_before_reset").i(), 1);
  EXPECT_EQ(loaded_.inline_().weights(0).name(), "W");
  EXPECT_EQ(loaded_.options().empty_row_state(), v1::INITIAL);
  EXPECT_EQ(loaded_.engine(), "cpu");
  EXPECT_THAT(outcome.out, HasSubstr("GRU-14"));

  const Outcome sent = Do({"models", "load", "vad", w_, "--engine=cpu"});
  EXPECT_EQ(sent.code, kOk) << sent.err;
  EXPECT_THAT(file_, HasSubstr("NUMPY")) << "whatever the file holds is sent";
  EXPECT_EQ(begin_.engine(), "cpu");
  EXPECT_EQ(sent.err, "") << "no progress where there is no terminal";

  ASSERT_EQ(Do({"models", "load", "vad", "--repository"}).code, kOk);
  EXPECT_TRUE(loaded_.repository());
  EXPECT_FALSE(loaded_.has_version());
}

std::string Read(const std::string& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

TEST_F(ModelCommandsTest, SavesAFileThatIsWhole) {
  file_ = std::string("the file\0itself", 15);
  const std::string path = folder_.Path("saved.onnx");
  const Outcome outcome = Do({"models", "save", "vad:2", path});
  EXPECT_EQ(outcome.code, kOk) << outcome.err;
  EXPECT_EQ(outcome.out, "saved version 2 of vad to " + path + "\n");
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(asked_for_.model().version(), 2);
  EXPECT_EQ(Read(path), file_);

  answer_ = {9, "came as operators"};
  const Outcome refused = Do({"models", "save", "vad", path});
  EXPECT_EQ(refused.code, kRefused);
  EXPECT_THAT(refused.err, HasSubstr("came as operators"));
  EXPECT_EQ(Read(path), file_) << "the older file stays";
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  answer_ = {};
  EXPECT_EQ(Do({"models", "save", "vad", folder_.Path("missing/x.onnx")}).code, kCannotWrite);
  EXPECT_THAT(Usage({"models", "save", "vad"}), HasSubstr("FILE is missing"));
}

TEST(Transfer, TellsShareAndRate) {
  EXPECT_EQ(TransferText("sent", 25 << 20, 200 << 20, std::chrono::milliseconds(500)),
            "sent 25.0 of 200.0 MiB, 12 %, 50.0 MiB/s");
  EXPECT_EQ(TransferText("got", 0, 0, std::chrono::seconds(0)), "got 0.0 of 0.0 MiB, 100 %, 0.0 MiB/s");
}

TEST_F(ModelCommandsTest, Unloads) {
  EXPECT_EQ(Do({"models", "unload", "vad:2"}).out, "unloaded vad:2\n");
  EXPECT_EQ(unloaded_.model().version(), 2);
  answer_ = {5, "no model vad", {ReasonDetail("MODEL_UNKNOWN")}};
  const Outcome outcome = Do({"models", "unload", "vad:2"});
  EXPECT_EQ(outcome.code, kRefused);
  EXPECT_THAT(outcome.err, HasSubstr("MODEL_UNKNOWN"));
}

TEST_F(ModelCommandsTest, EveryCommandShowsARefusal) {
  answer_ = {9, "not now"};
  for (const std::vector<std::string>& words : {std::vector<std::string>{"models", "ls"},
                                                {"models", "show", "vad"},
                                                {"models", "load", "vad", "--repository"}}) {
    const Outcome outcome = Do(words);
    EXPECT_EQ(outcome.code, kRefused);
    EXPECT_EQ(outcome.err, "error: FAILED_PRECONDITION: not now\n");
  }
}

TEST_F(ModelCommandsTest, MistakesNameTheFix) {
  EXPECT_THAT(Usage({"models", "show"}), HasSubstr("NAME[:VERSION] is missing"));
  EXPECT_THAT(Usage({"models", "show", "vad:x"}), HasSubstr("vad:3"));
  EXPECT_THAT(Usage({"models", "show", "vad", "2"}), HasSubstr("unexpected argument 2"));
  EXPECT_THAT(Usage({"models", "ls", "vad"}), HasSubstr("unexpected argument vad"));
  EXPECT_THAT(Usage({"models", "load", "vad"}), HasSubstr("an ONNX file, or --op"));
  EXPECT_THAT(Usage({"models", "load"}), HasSubstr("NAME[:VERSION] is missing"));
  EXPECT_THAT(Usage({"models", "load", "vad", "vad.onnx", "2"}), HasSubstr("unexpected argument 2"));
  EXPECT_THAT(Usage({"models", "load", "vad", "vad.onnx", "--repository"}), HasSubstr("an ONNX file, or --op"));
  EXPECT_THAT(Usage({"models", "load", "vad", "vad.onnx", "--tensor=W=w.npy"}), HasSubstr("--tensor belongs to --op"));
  EXPECT_THAT(Usage({"models", "load", "vad", "--repository", "--op=GRU"}), HasSubstr("an ONNX file, or --op"));
  EXPECT_THAT(Do({"models", "load", "vad", "no-such.onnx"}).err, HasSubstr("no-such.onnx"));
  EXPECT_THAT(Usage({"models", "load", "vad", "--repository", "--tensor=W=w.npy"}),
              HasSubstr("--tensor belongs to --op"));
  EXPECT_THAT(Usage({"models", "load", "vad", "--op=GRU"}), HasSubstr("--opset"));
  EXPECT_THAT(Usage({"models", "unload", "vad", "--json"}), HasSubstr("unknown flag --json"));
}

TEST_F(ModelCommandsTest, Health) {
  server_.SetServing(true);
  EXPECT_EQ(Do({"health"}).out, "serving\n");
  server_.SetServing(false);
  const Outcome outcome = Do({"health"});
  EXPECT_EQ(outcome.code, kRefused);
  EXPECT_THAT(outcome.err, HasSubstr("not serving"));
  EXPECT_EQ(Do({"health", "nobody"}).code, kRefused);
}

TEST_F(ModelCommandsTest, HealthOfSeveralServers) {
  FakeServer other;
  server_.SetServing(true);
  other.SetServing(false);
  const std::string both = "--server=" + server_.address() + "," + other.address();
  const Outcome outcome = RunRnnctl({"health", both});
  EXPECT_EQ(outcome.code, kRefused);
  EXPECT_EQ(outcome.out,
            server_.address() + "  serving\n" + other.address() + "  the server answers, but it is not serving\n");
  other.SetServing(true);
  EXPECT_EQ(RunRnnctl({"health", both}).code, kOk);
}

}  // namespace
}  // namespace rnnserve::rnnctl
