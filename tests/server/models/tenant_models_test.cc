// SPDX-License-Identifier: Apache-2.0
// Whose models are whose, and that those of others are as if they were not there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/field_error.h"
#include "base/rejection.h"
#include "server/models/model_store.h"
#include "tests/server/models/model_fixture.h"

namespace rnnserve {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr UnloadOf kOwn = UnloadOf::kOwn;
constexpr UnloadOf kOperator = UnloadOf::kOwnOrEverybodys;
constexpr int64_t kOne = ModelStore::kBytesPerModel + 4 * (100 * 2 + 100 * 100 + 200);  // bytes of a model of Load

std::string Text(const absl::Status& status) { return std::string(status.message()); }

class TenantModels : public testing::Test {
 protected:
  absl::StatusOr<LoadedModel> Load(const std::string& tenant, const std::string& name, float seed,
                                   int64_t version = 1) {
    const TestOperator op = MakeOperator("RNN", seed, 100);
    return store_.LoadInline({.tenant = tenant, .name = name, .version = version}, op.op, op.inputs);
  }
  // "tenant/name:version" of what is listed.
  std::vector<std::string> Listed(const std::vector<LoadedModel>& models) const {
    std::vector<std::string> list;
    for (const LoadedModel& model : models) {
      list.push_back(model.tenant + "/" + model.name + ":" + std::to_string(model.version));
    }
    return list;
  }

  // Of one content: three entries.
  ModelStore store_{{.tenant_bytes = kOne + 2 * ModelStore::kBytesPerModel}};
};

TEST_F(TenantModels, TwoTenantsUseOneName) {
  const ModelPtr a = Load("a", "vad", 1)->model, b = Load("b", "vad", 2)->model, all = Load("", "vad", 3)->model;
  EXPECT_EQ(store_.Get("vad", {}, "a")->model, a);
  EXPECT_EQ(store_.Get("vad", 1, "b")->model, b);
  EXPECT_EQ(store_.Get("vad", {}, "c")->model, all);
  EXPECT_EQ(store_.Get("vad", {})->model, all);
  EXPECT_EQ(Load("a", "vad", 2).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Load("a", "vad", 1)->model, a) << "equal content";
}

TEST_F(TenantModels, TheOwnNameComesBeforeEverybodys) {
  const ModelPtr own = Load("a", "vad", 1, 2)->model;
  const ModelPtr newer = Load("", "vad", 2, 7)->model;
  EXPECT_EQ(store_.Get("vad", {}, "a")->model, own) << "whatever versions everybody's has";
  EXPECT_EQ(store_.Get("vad", 7, "a")->model, newer);
  EXPECT_THAT(Text(store_.Get("vad", 3, "a").status()), HasSubstr("loaded versions: 2, 7"));
  EXPECT_TRUE(store_.Unload("a", kOwn, "vad", {}).ok());
  EXPECT_EQ(store_.Get("vad", {}, "a")->model, newer);
}

TEST_F(TenantModels, OfOthersNothingIsToBeSeen) {
  const std::string fingerprint = Load("a", "secret", 1)->model->fingerprint();
  Load("", "open", 2).IgnoreError();
  const absl::Status foreign = store_.Get("secret", {}, "b").status();
  EXPECT_EQ(Text(foreign), "model \"secret\" is not loaded; loaded models: open");
  for (const UnloadOf whose : {kOwn, kOperator, UnloadOf::kOwnAlone}) {
    EXPECT_EQ(store_.Unload("b", whose, "secret", {}).status(), foreign);
  }
  EXPECT_THAT(Text(store_.Get("secret", {}).status()), Not(HasSubstr("a/")));
  EXPECT_EQ(ReasonOf(store_.GetByFingerprint(fingerprint, "b").status()), "FINGERPRINT_EVICTED");
  EXPECT_TRUE(store_.GetByFingerprint(fingerprint, "a").ok());
  EXPECT_THAT(Listed(store_.List("b")), ElementsAre("/open:1"));
  EXPECT_THAT(Listed(store_.List("a")), ElementsAre("/open:1", "a/secret:1"));
  EXPECT_THAT(Listed(store_.List()), ElementsAre("/open:1"));
  EXPECT_THAT(Listed(store_.ListAll()), ElementsAre("/open:1", "a/secret:1"));
}

TEST_F(TenantModels, WhatCameInlineIsKnownToItsTenantAlone) {
  const TestOperator op = MakeOperator("GRU", 1, 10);
  const ModelPtr model = store_.FindOrCreate(op.op, op.inputs, "a").value();
  const std::string fingerprint = model->fingerprint();
  EXPECT_TRUE(store_.GetByFingerprint(fingerprint, "a").ok());
  EXPECT_FALSE(store_.GetByFingerprint(fingerprint, "b").ok());
  EXPECT_FALSE(store_.GetByFingerprint(fingerprint).ok());
  EXPECT_EQ(store_.FindOrCreate(op.op, op.inputs, "b").value(), model) << "one object all the same";
  EXPECT_TRUE(store_.GetByFingerprint(fingerprint, "b").ok());
}

TEST_F(TenantModels, OnlyOperatorsUnloadEverybodys) {
  Load("", "vad", 1).IgnoreError();
  const absl::Status refused = store_.Unload("a", kOwn, "vad", {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(Text(refused), AllOf(HasSubstr("everybody's"), HasSubstr("operator")));
  EXPECT_EQ(store_.Unload("a", UnloadOf::kOwnAlone, "vad", {}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(store_.Get("vad", {}, "a").ok());
  Load("ops", "vad", 2).IgnoreError();
  EXPECT_EQ(store_.Unload("ops", kOperator, "vad", {})->front().tenant, "ops") << "its own first";
  EXPECT_EQ(store_.Unload("ops", kOperator, "vad", {})->front().tenant, "");
  EXPECT_TRUE(store_.ListAll().empty());
}

TEST_F(TenantModels, ATenantHasAQuota) {
  for (const int64_t version : {1, 2, 3}) ASSERT_TRUE(Load("a", "vad", 1, version).ok());
  const absl::Status many = Load("a", "vad", 1, 4).status();
  EXPECT_EQ(many.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(many), "QUOTA_EXCEEDED");
  EXPECT_EQ(QuotaSubjectOf(many), "model_bytes");
  EXPECT_THAT(Text(many), HasSubstr("--max_tenant_share"));
  EXPECT_TRUE(Load("b", "vad", 1).ok());
  for (int64_t version = 1; version < 9; ++version) EXPECT_TRUE(Load("", "vad", 1, version).ok());
  ASSERT_TRUE(store_.Unload("a", kOwn, "vad", 2).ok());
  EXPECT_TRUE(Load("a", "vad", 1, 4).ok());
}

TEST(TenantModelBytes, AreBoundedForATenantAndForAll) {
  ModelStore store({.named_bytes = 3 * kOne, .tenant_bytes = 2 * kOne - 1});
  const auto load = [&](const std::string& tenant, float seed) {
    const TestOperator op = MakeOperator("RNN", seed, 100);
    return store.LoadInline({.tenant = tenant, .name = "m" + std::to_string(static_cast<int>(seed))}, op.op, op.inputs)
        .status();
  };
  EXPECT_TRUE(load("a", 1).ok());
  const absl::Status much = load("a", 2);
  EXPECT_EQ(QuotaSubjectOf(much), "model_bytes");
  EXPECT_THAT(Text(much), HasSubstr("--max_tenant_share"));
  EXPECT_TRUE(load("b", 1).ok()) << "equal content counts for each tenant";
  EXPECT_TRUE(load("", 3).ok());
  EXPECT_THAT(Text(load("c", 4)), HasSubstr("--model_weight_bytes"));
  EXPECT_TRUE(store.Unload("a", kOwn, "m1", {}).ok());
  EXPECT_TRUE(load("c", 4).ok());
}

}  // namespace
}  // namespace rnnserve
