// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "base/field_error.h"
#include "server/models/model_store.h"
#include "tests/onnx_file/onnx_fixture.h"

namespace rnnserve {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

std::map<std::string, std::string> Failures(const ModelStore& store) {
  std::map<std::string, std::string> failures;
  for (const RepositoryFailure& failure : store.Failures()) failures[failure.path] = failure.reason;
  return failures;
}

std::string Text(const absl::Status& status) { return std::string(status.message()); }

TEST(Repository, GoodFilesLoadAndBrokenOnesAreReported) {
  const TemporaryFolder folder, outside;
  const std::string good = SmallModel("LSTM", 17).SerializeAsString();
  onnx::ModelProto unresolved = SmallModel("GRU", 14);
  AddAttribute(*unresolved.mutable_graph()->mutable_node(0), "layuot", onnx::AttributeProto::INT).set_i(1);
  onnx::ModelProto no_w = SmallModel("GRU", 14);
  no_w.mutable_graph()->mutable_node(0)->set_input(1, "");
  for (const char* path :
       {"vad/1/model.onnx", "vad/12/model.onnx", ".git/1/model.onnx", "vad/.old/model.onnx", "bad name/1/model.onnx",
        "vad/v2/model.onnx", "vad/0/model.onnx", "vad/007/model.onnx", "vad/-1/model.onnx"}) {
    folder.Write(path, good);
  }
  folder.Write("cut/1/model.onnx", good.substr(0, good.size() / 2));
  folder.Write("opset/1/model.onnx", SmallModel("LSTM", 0).SerializeAsString());
  folder.Write("unresolved/1/model.onnx", unresolved.SerializeAsString());
  folder.Write("no_w/1/model.onnx", no_w.SerializeAsString());
  folder.Write("other/1/weights.bin", "");
  folder.Write("README.md", "");
  folder.Write("tagger.onnx", good);
  folder.Write("empty/.keep", "");
  outside.Write("1/model.onnx", good);
  std::filesystem::create_symlink(outside.path(), folder.path("link"));
  std::filesystem::create_symlink(folder.path("vad"), folder.path("alias"));

  ModelStore store({.repository = folder.path()});
  ASSERT_TRUE(store.ScanRepository().ok());
  std::vector<std::string> loaded;
  for (const LoadedModel& model : store.List()) loaded.push_back(model.source);
  EXPECT_THAT(loaded,
              ElementsAre("alias/1/model.onnx", "alias/12/model.onnx", "vad/1/model.onnx", "vad/12/model.onnx"));
  const auto failures = Failures(store);
  const std::map<std::string, std::string> expected = {
      {"README.md", "is not a folder"},
      {"alias/-1", "is no version"},
      {"alias/0", "is no version"},
      {"alias/007", "is no version"},
      {"alias/v2", "is no version"},
      {"bad name", "is no model's name"},
      {"cut/1/model.onnx", "cut off"},
      {"empty", "no version folder"},
      {"link", "leads out"},
      {"no_w/1/model.onnx", "input W is missing"},
      {"opset/1/model.onnx", "opset"},
      {"other/1/model.onnx", "does not exist"},
      {"tagger.onnx", "move it to tagger/1/model.onnx"},
      {"unresolved/1/model.onnx", "layuot"},
      {"vad/-1", "is no version"},
      {"vad/0", "is no version"},
      {"vad/007", "is no version"},
      {"vad/v2", "is no version"},
  };
  for (const auto& [path, reason] : expected) {
    ASSERT_TRUE(failures.contains(path)) << path;
    EXPECT_THAT(failures.at(path), HasSubstr(reason)) << path;
  }
  EXPECT_EQ(failures.size(), expected.size()) << testing::PrintToString(failures);
}

TEST(Repository, MayBeALink) {
  const TemporaryFolder folder;
  folder.Write("v5/vad/1/model.onnx", SmallModel("RNN", 7).SerializeAsString());
  std::filesystem::create_symlink("v5", folder.path("current"));
  ModelStore store({.repository = folder.path("current")});
  ASSERT_TRUE(store.ScanRepository().ok());
  EXPECT_TRUE(store.Get("vad", {}).ok());
  EXPECT_TRUE(store.Failures().empty());
}

TEST(Repository, ThatDoesNotExist) {
  const TemporaryFolder folder;
  ModelStore store({.repository = folder.path("nowhere")});
  const absl::Status read = store.ScanRepository();
  EXPECT_EQ(read.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Text(read), "does not exist");
}

TEST(Repository, ARefusedFileSaysWhyItsModelIsNotThere) {
  const TemporaryFolder folder;
  folder.Write("vad/2/model.onnx", "cut");
  folder.Write("vad/10/model.onnx", SmallModel("LSTM", 0).SerializeAsString());
  folder.Write("vad/9/model.onnx", SmallModel("LSTM", 14).SerializeAsString());
  folder.Write("tone/3/model.onnx", "cut");
  folder.Write("empty/.keep", "");
  ModelStore store({.repository = folder.path()});
  ASSERT_TRUE(store.ScanRepository().ok());
  const auto why = [&](const char* name, std::optional<int64_t> version) {
    const absl::Status status = store.Get(name, version).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    EXPECT_EQ(ReasonOf(status), "MODEL_UNKNOWN");
    return Text(status);
  };
  EXPECT_EQ(store.Get("vad", {})->version, 9);
  EXPECT_THAT(why("vad", 10),
              AllOf(HasSubstr("version 10 of model \"vad\""), HasSubstr("vad/10/model.onnx"), HasSubstr("opset")));
  EXPECT_THAT(why("vad", 2), AllOf(HasSubstr("vad/2/model.onnx"), HasSubstr("no ONNX model")));
  EXPECT_THAT(why("tone", {}), AllOf(HasSubstr("tone/3/model.onnx"), HasSubstr("no ONNX model")));
  EXPECT_THAT(why("empty", {}), HasSubstr("no version folder"));
  EXPECT_THAT(why("vad", 1), AllOf(HasSubstr("has no version 1"), Not(HasSubstr("refused"))));
  EXPECT_THAT(why("ton", {}), AllOf(HasSubstr("loaded models: vad"), Not(HasSubstr("refused"))));
}

TEST(Repository, ScansAgain) {
  const TemporaryFolder folder;
  folder.Write("a/1/model.onnx", SmallModel("RNN", 14).SerializeAsString());
  folder.Write("b/1/model.onnx", "cut");
  ModelStore store({.repository = folder.path()});
  ASSERT_TRUE(store.ScanRepository().ok());
  const ModelPtr first = store.Get("a", {})->model;
  folder.Write("b/1/model.onnx", SmallModel("GRU", 14).SerializeAsString());
  ASSERT_TRUE(store.ScanRepository().ok());
  EXPECT_EQ(store.Get("a", {})->model, first);
  EXPECT_TRUE(store.Get("b", {}).ok());
  EXPECT_TRUE(store.Failures().empty());
  folder.Write("a/1/model.onnx", SmallModel("GRU", 14).SerializeAsString());
  ASSERT_TRUE(store.ScanRepository().ok());
  EXPECT_THAT(Failures(store).at("a/1/model.onnx"), HasSubstr("unload it first"));
  EXPECT_EQ(store.Get("a", {})->model, first);
}

// What a look has read: paths of what is loaded, reasons of what is refused.
std::vector<std::string> Look(ModelStore& store) {
  std::vector<std::string> read;
  const absl::StatusOr<RepositoryChanges> changes = store.Rescan();
  EXPECT_TRUE(changes.ok()) << changes.status();
  for (const LoadedModel& loaded : changes->loaded) read.push_back(loaded.source);
  for (const RepositoryFailure& failure : changes->refused) read.push_back(failure.path + ": " + failure.reason);
  return read;
}

TEST(Repository, ReadsANewVersionOnceItStandsStill) {
  const TemporaryFolder folder;
  const std::string whole = SmallModel("RNN", 14).SerializeAsString();
  folder.Write("a/1/model.onnx", whole);
  ModelStore store({.repository = folder.path()});
  ASSERT_TRUE(store.ScanRepository().ok());
  EXPECT_THAT(Look(store), IsEmpty()) << "nothing is new";

  folder.Write("a/2/model.onnx", whole.substr(0, 40));
  EXPECT_THAT(Look(store), IsEmpty()) << "it may be half written";
  folder.Write("a/2/model.onnx", whole);
  EXPECT_THAT(Look(store), IsEmpty()) << "it was: the files are others than in the look before";
  EXPECT_EQ(store.Get("a", {})->version, 1);
  EXPECT_THAT(Look(store), ElementsAre("a/2/model.onnx"));
  EXPECT_EQ(store.Get("a", {})->version, 2);
  EXPECT_THAT(Look(store), IsEmpty());

  ASSERT_TRUE(store.Unload("", UnloadOf::kOwnOrEverybodys, "a", 2).ok());
  EXPECT_THAT(Look(store), IsEmpty()) << "what was unloaded does not come back by itself";
  EXPECT_EQ(store.Get("a", {})->version, 1);
  folder.Write("a/2/weights/w.bin", "beside it");
  EXPECT_THAT(Look(store), IsEmpty());
  EXPECT_THAT(Look(store), ElementsAre("a/2/model.onnx")) << "but when it is written to";

  std::filesystem::remove_all(folder.path() + "/a");
  EXPECT_THAT(Look(store), IsEmpty());
  EXPECT_EQ(store.Get("a", {})->version, 2) << "what is loaded stays";
}

TEST(Repository, RefusesWhatDoesNotStandUpToALookAndKeepsWhatIsLoaded) {
  const TemporaryFolder folder;
  folder.Write("a/1/model.onnx", SmallModel("RNN", 14).SerializeAsString());
  folder.Write("b/1/model.onnx", "cut");
  ModelStore store({.repository = folder.path()});
  ASSERT_TRUE(store.ScanRepository().ok());
  const ModelPtr first = store.Get("a", {})->model;
  folder.Write("a/1/model.onnx", SmallModel("GRU", 14).SerializeAsString());
  EXPECT_THAT(Look(store), IsEmpty());
  EXPECT_THAT(Look(store), ElementsAre(HasSubstr("unload it first")));
  EXPECT_EQ(store.Get("a", {})->model, first);
  EXPECT_THAT(Look(store), IsEmpty()) << "told once";
  EXPECT_EQ(Failures(store).size(), 2U) << "and listed on";
  folder.Write("b/1/model.onnx", SmallModel("GRU", 14).SerializeAsString());
  EXPECT_THAT(Look(store), IsEmpty());
  EXPECT_EQ(Failures(store).size(), 2U);
  EXPECT_THAT(Look(store), ElementsAre("b/1/model.onnx"));
  EXPECT_EQ(Failures(store).size(), 1U) << "the file is mended";
  folder.Write("sp ace/1/model.onnx", "");
  folder.Write("c/x/model.onnx", "");
  EXPECT_THAT(Look(store), UnorderedElementsAre(HasSubstr("sp ace"), HasSubstr("c/x"))) << "names that can be none";
  EXPECT_THAT(Look(store), IsEmpty()) << "told once";

  std::filesystem::rename(folder.path(), folder.path() + "-away");
  EXPECT_EQ(store.Rescan().status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store.Get("a", {})->model, first);
  std::filesystem::rename(folder.path() + "-away", folder.path());
  EXPECT_THAT(Look(store), IsEmpty()) << "all as it was";
}

TEST(Repository, LoadFromRepository) {
  const TemporaryFolder folder;
  ModelStore store({.repository = folder.path()});
  const auto load = [&](const std::string& name, int64_t version, OptionalOptions options = {}) {
    return store.LoadFromRepository(name, version, options, "cpu");
  };
  const absl::Status missing = load("a", 1).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(missing), "MODEL_UNKNOWN");
  EXPECT_EQ(Text(missing), "a/1/model.onnx does not exist in the repository folder (--models)");

  folder.Write("a/1/model.onnx", "cut");
  ASSERT_TRUE(store.ScanRepository().ok());
  EXPECT_EQ(store.Failures().size(), 1U);
  const absl::Status broken = load("a", 1).status();
  EXPECT_EQ(broken.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(broken), AllOf(HasSubstr("a/1/model.onnx: "), HasSubstr("no ONNX model")));

  folder.Write("a/1/model.onnx", SmallModel("RNN", 14).SerializeAsString());
  const auto loaded = load("a", 1, {.deterministic = true});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->source, "a/1/model.onnx");
  EXPECT_EQ(loaded->engine, "cpu");
  EXPECT_EQ(store.Get("a", 1)->options.deterministic, true);
  EXPECT_TRUE(store.Failures().empty()) << "the file is mended";
  EXPECT_TRUE(load("a", 1, {.deterministic = true}).ok());
  EXPECT_EQ(load("a", 1).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(FieldOf(load("../a", 1).status()), "name");
  EXPECT_EQ(FieldOf(load("a", 0).status()), "version");
  EXPECT_EQ(ModelStore(ModelStore::Options{}).LoadFromRepository("a", 1, {}, "").status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(Repository, WeightsAboveTheBound) {
  const TemporaryFolder folder;
  folder.Write("a/1/model.onnx", SmallModel("RNN", 14).SerializeAsString());
  ModelStore store({.repository = folder.path(), .named_bytes = 19});
  ASSERT_TRUE(store.ScanRepository().ok());
  EXPECT_THAT(Failures(store).at("a/1/model.onnx"), HasSubstr("at most 7 are left"));
}

}  // namespace
}  // namespace rnnserve
