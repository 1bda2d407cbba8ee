// SPDX-License-Identifier: Apache-2.0
#include "server/models/model_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "tests/server/models/model_fixture.h"

namespace rnnserve {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Of MakeOperator("RNN", _, 100): wide enough to outweigh the flat charge.
constexpr int64_t kWeights = 4 * (100 * 2 + 100 * 100 + 200);
constexpr int64_t kCharge = kWeights + ModelStore::kBytesPerModel;

TestOperator Wide(float seed) { return MakeOperator("RNN", seed, 100); }

absl::StatusOr<LoadedModel> Load(ModelStore& store, const std::string& name, int64_t version, const TestOperator& given,
                                 OptionalOptions options = {}, const std::string& engine = "") {
  return store.LoadInline({.name = name, .version = version, .options = options, .engine = engine}, given.op,
                          given.inputs);
}

absl::StatusOr<ModelPtr> Find(ModelStore& store, const TestOperator& given) {
  return store.FindOrCreate(given.op, given.inputs);
}

bool Holds(ModelStore& store, const std::string& fingerprint) { return store.GetByFingerprint(fingerprint).ok(); }

std::string Text(const absl::Status& status) { return std::string(status.message()); }

TEST(ModelStore, LoadGetListUnload) {
  ModelStore store(ModelStore::Options{});
  const LoadedModel one = Load(store, "vad", 1, MakeOperator("LSTM"), {.deterministic = true}, "cpu").value();
  const LoadedModel three = Load(store, "vad", 3, MakeOperator("GRU")).value();
  EXPECT_EQ(one.source, "upload");
  EXPECT_EQ(one.engine, "cpu");
  EXPECT_EQ(store.Get("vad", 1)->model, one.model);
  EXPECT_EQ(store.Get("vad", 1)->options.deterministic, true);
  EXPECT_EQ(store.Get("vad", {})->model, three.model) << "the highest version";
  EXPECT_EQ(store.List().size(), 2U);
  EXPECT_EQ(store.GetByFingerprint(one.model->fingerprint()).value(), one.model);

  EXPECT_TRUE(store.Unload("", UnloadOf::kOwn, "vad", 3).ok());
  EXPECT_EQ(store.Get("vad", {})->version, 1);
  EXPECT_FALSE(Holds(store, three.model->fingerprint()));
  EXPECT_EQ(three.model->stack().layers[0].op_type, "GRU") << "who holds it keeps it";
  EXPECT_TRUE(Load(store, "vad", 2, MakeOperator("RNN")).ok());
  EXPECT_TRUE(store.Unload("", UnloadOf::kOwn, "vad", {}).ok());
  EXPECT_TRUE(store.List().empty());
  EXPECT_EQ(ReasonOf(store.Unload("", UnloadOf::kOwn, "vad", {}).status()), "MODEL_UNKNOWN");
}

TEST(ModelStore, EqualContentAgainIsOk) {
  ModelStore store(ModelStore::Options{});
  const LoadedModel first = Load(store, "m", 1, MakeOperator("LSTM"), {}, "auto").value();
  TestOperator same = MakeOperator("LSTM");
  same.op.version.reset();
  same.op.opset = 17;
  EXPECT_EQ(Load(store, "m", 1, same, {}, "auto")->model, first.model);
  EXPECT_EQ(Load(store, "n", 1, same)->model, first.model) << "shared between names";
}

TEST(ModelStore, OtherContentIsRefused) {
  ModelStore store(ModelStore::Options{});
  ASSERT_TRUE(Load(store, "m", 4, MakeOperator("LSTM")).ok());
  const absl::Status weights = Load(store, "m", 4, MakeOperator("LSTM", 7)).status();
  EXPECT_EQ(weights.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(Text(weights),
              AllOf(HasSubstr("version 4 of model \"m\""), HasSubstr("unload it first"), HasSubstr("next: 5")));
  EXPECT_THAT(Text(Load(store, "m", 4, MakeOperator("LSTM"), {.deterministic = true}).status()),
              HasSubstr("other options"));
  EXPECT_THAT(Text(Load(store, "m", 4, MakeOperator("LSTM"), {}, "cpu").status()), HasSubstr("engine"));
  EXPECT_EQ(store.List().size(), 1U);
}

TEST(ModelStore, LoadChecksItsFields) {
  ModelStore store(ModelStore::Options{});
  const TestOperator good = MakeOperator("LSTM");
  for (const std::string& name : {std::string(), std::string(".hidden"), std::string("a/b"), std::string(".."),
                                  std::string("a b"), std::string("a\0b", 3), std::string(129, 'a')}) {
    EXPECT_EQ(FieldOf(Load(store, name, 1, good).status()), "name") << name;
  }
  for (const int64_t version : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
    EXPECT_EQ(FieldOf(Load(store, "m", version, good).status()), "version");
  }
  EXPECT_TRUE(Load(store, std::string(128, 'a'), INT64_MAX, good).ok());

  TestOperator with_data = MakeOperator("LSTM");
  with_data.Add("X", {1, 1, 2}, 0);
  const absl::Status data = Load(store, "m", 1, with_data).status();
  EXPECT_EQ(FieldOf(data), "inline.weights[X]");
  EXPECT_THAT(Text(data), HasSubstr("weights only"));

  TestOperator without_r = MakeOperator("LSTM");
  without_r.inputs.erase(without_r.inputs.begin() + 1);
  EXPECT_EQ(FieldOf(Load(store, "m", 1, without_r).status()), "inline.weights[R]");
  TestOperator bad_clip = MakeOperator("LSTM");
  bad_clip.op.attributes["clip"] = -1.F;
  EXPECT_EQ(FieldOf(Load(store, "m", 1, bad_clip).status()), "inline.operator.attributes[clip]");
  EXPECT_EQ(FieldOf(Find(store, bad_clip).status()), "operator.attributes[clip]");
}

TEST(ModelStore, UnknownModelsNameWhatIsLoaded) {
  ModelStore store(ModelStore::Options{});
  EXPECT_THAT(Text(store.Get("m", {}).status()), HasSubstr("no model is"));
  for (int k = 10; k < 25; ++k) ASSERT_TRUE(Load(store, absl::StrCat("m", k), 1, MakeOperator("RNN")).ok());
  ASSERT_TRUE(Load(store, "m10", 2, MakeOperator("RNN")).ok());
  const absl::Status unknown = store.Get("other", {}).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(unknown), "MODEL_UNKNOWN");
  EXPECT_THAT(Text(unknown), AllOf(HasSubstr("\"other\""), HasSubstr("m10, m11"), HasSubstr("and 5 more")));
  EXPECT_THAT(Text(store.Get("m10", 7).status()), HasSubstr("no version 7; loaded versions: 1, 2"));
  EXPECT_LT(Text(store.Get(std::string(100000, 'x'), {}).status()).size(), 1000U);
}

TEST(ModelStore, Fingerprints) {
  ModelStore store(ModelStore::Options{});
  const ModelPtr model = Find(store, MakeOperator("GRU")).value();
  std::string upper = model->fingerprint();
  for (char& c : upper) c = static_cast<char>(toupper(c));
  EXPECT_EQ(store.GetByFingerprint(upper).value(), model);
  const absl::Status evicted = store.GetByFingerprint(std::string(64, '0')).status();
  EXPECT_EQ(evicted.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(evicted), "FINGERPRINT_EVICTED");
  for (const std::string& malformed : {std::string(), std::string(63, '0'), std::string(64, 'g')}) {
    EXPECT_EQ(FieldOf(store.GetByFingerprint(malformed).status()), "fingerprint");
  }
}

TEST(ModelStore, InlineOperatorsAreRecognisedByContent) {
  ModelStore store(ModelStore::Options{});
  TestOperator given = MakeOperator("LSTM");
  const ModelPtr model = Find(store, given).value();
  given.Add("X", {1, 1, 2}, 0);
  EXPECT_EQ(Find(store, given).value(), model);
  EXPECT_EQ(Load(store, "m", 1, MakeOperator("LSTM"))->model, model);
  EXPECT_NE(Find(store, MakeOperator("LSTM", 3)).value(), model);
}

TEST(ModelStore, LeastRecentlyUsedInlineModelsGoFirst) {
  ModelStore store({.inline_cache_bytes = 2 * kCharge});
  std::string fingerprints[3];
  for (int k = 0; k < 2; ++k) fingerprints[k] = Find(store, Wide(static_cast<float>(k))).value()->fingerprint();
  EXPECT_TRUE(Holds(store, fingerprints[0]));  // now 1 is the oldest
  fingerprints[2] = Find(store, Wide(2)).value()->fingerprint();
  EXPECT_FALSE(Holds(store, fingerprints[1]));
  EXPECT_TRUE(Holds(store, fingerprints[0]));
  EXPECT_TRUE(Holds(store, fingerprints[2]));
  ASSERT_TRUE(Find(store, Wide(0)).ok());  // a use as well; 2 is the oldest
  ASSERT_TRUE(Find(store, Wide(1)).ok());
  EXPECT_FALSE(Holds(store, fingerprints[2]));
}

TEST(ModelStore, OneByteBelowTwoModelsHoldsOne) {
  ModelStore store({.inline_cache_bytes = 2 * kCharge - 1});
  const std::string first = Find(store, Wide(0)).value()->fingerprint();
  const std::string second = Find(store, Wide(1)).value()->fingerprint();
  EXPECT_FALSE(Holds(store, first));
  EXPECT_TRUE(Holds(store, second));
}

TEST(ModelStore, AModelAboveTheBoundIsForItsCallerOnly) {
  ModelStore store({.inline_cache_bytes = kCharge - 1});
  const std::string small = Find(store, MakeOperator("RNN")).value()->fingerprint();
  const ModelPtr model = Find(store, Wide(0)).value();
  EXPECT_EQ(model->weight_bytes(), kWeights);
  EXPECT_FALSE(Holds(store, model->fingerprint()));
  EXPECT_TRUE(Holds(store, small)) << "nothing goes for what cannot stay";
  EXPECT_EQ(Find(store, Wide(0)).value(), model) << "while somebody holds it, it is not built again";
}

TEST(ModelStore, NamedModelsAreNotEvictedAndNotCachedTwice) {
  ModelStore store({.inline_cache_bytes = kCharge});
  const std::string named = Load(store, "m", 1, Wide(0))->model->fingerprint();
  const std::string cached = Find(store, Wide(1)).value()->fingerprint();
  ASSERT_TRUE(Find(store, Wide(0)).ok());
  EXPECT_TRUE(Holds(store, named));
  EXPECT_TRUE(Holds(store, cached));
}

TEST(ModelStore, NamedBytesAreBounded) {
  ModelStore store({.named_bytes = 2 * kCharge + ModelStore::kBytesPerModel});
  ASSERT_TRUE(Load(store, "a", 1, Wide(0)).ok());
  ASSERT_TRUE(Load(store, "b", 1, Wide(1)).ok());
  ASSERT_TRUE(Load(store, "c", 1, Wide(1)).ok()) << "equal weights count once";
  const absl::Status full = Load(store, "d", 1, MakeOperator("RNN")).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Text(full), HasSubstr("unload models"));
  EXPECT_TRUE(store.Unload("", UnloadOf::kOwn, "b", {}).ok());
  EXPECT_FALSE(Load(store, "d", 1, Wide(2)).ok()) << "c still holds the weights of b";
  EXPECT_TRUE(Load(store, "d", 1, MakeOperator("RNN", 1, 1)).status().code() == absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(store.Unload("", UnloadOf::kOwn, "c", {}).ok());
  EXPECT_TRUE(Load(store, "d", 1, Wide(2)).ok());
}

TEST(ModelStore, ThreadsThatCreateTheSameModelGetTheSameOne) {
  ModelStore store({.inline_cache_bytes = 3 * kCharge});
  constexpr size_t kThreads = 4, kRounds = 20;
  std::vector<std::vector<ModelPtr>> found(kThreads, std::vector<ModelPtr>(kRounds));
  std::barrier start(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t k = 0; k < kRounds; ++k) {
        start.arrive_and_wait();
        found[t][k] = Find(store, Wide(static_cast<float>(k))).value();
        (void)store.GetByFingerprint(found[t][k]->fingerprint());
        (void)Load(store, "m", static_cast<int64_t>(k + 1), Wide(static_cast<float>(k / 2)));
        (void)store.List();
        (void)store.Get("m", {});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 1; t < kThreads; ++t) EXPECT_EQ(found[t], found[0]);
  EXPECT_EQ(store.List().size(), kRounds);
}

}  // namespace
}  // namespace rnnserve
