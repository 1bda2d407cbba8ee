// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>

#include "server/sessions/contract/session_keys.h"

namespace rnnserve {
namespace {

using Kind = SessionKeys::Kind;

TEST(SessionKeyTest, OwnKeysAreOursAndVerify) {
  const SessionKeys keys({});
  const SessionKey key = keys.Make("tenant");
  const SessionKeys::Classified classified = keys.Classify(key.Text(), "tenant");
  ASSERT_EQ(classified.kind, Kind::kOurs);
  EXPECT_EQ(classified.key.id, key.id);
  EXPECT_TRUE(keys.Verify(classified.key, "tenant"));
  EXPECT_FALSE(keys.Verify(classified.key, "another tenant"));
}

TEST(SessionKeyTest, EveryChangedLetterMakesItUnknown) {
  const SessionKeys keys({}), another({});
  const std::string text = keys.Make("tenant").Text();
  for (size_t k = 0; k < text.size(); ++k) {
    std::string changed = text;
    changed[k] = changed[k] == 'A' ? 'B' : 'A';
    const SessionKeys::Classified classified = keys.Classify(changed, "tenant");
    EXPECT_NE(classified.kind, Kind::kOtherBoot) << k;
    EXPECT_FALSE(classified.kind == Kind::kOurs && keys.Verify(classified.key, "tenant")) << k;
    EXPECT_EQ(another.Classify(changed, "tenant").kind, Kind::kUnknown) << k;
  }
}

TEST(SessionKeyTest, WhatIsNoKeyIsUnknown) {
  const SessionKeys keys({});
  const std::string text = keys.Make("").Text();
  for (const std::string& wrong : {std::string(), std::string("x"), text + "A", text.substr(1), std::string(56, '\0'),
                                   std::string(56, '!'), std::string(56, 'A'), std::string(1 << 20, 'A')}) {
    EXPECT_EQ(keys.Classify(wrong, "").kind, Kind::kUnknown) << wrong.size();
  }
}

TEST(SessionKeyTest, AnotherBootIsToldApart) {
  const SessionKeys before({}), after({});
  EXPECT_EQ(after.Classify(before.Make("t").Text(), "t").kind, Kind::kOtherBoot);
  EXPECT_EQ(after.Classify(before.Make("t").Text(), "u").kind, Kind::kUnknown);
}

// Without a shared secret every caller may know the second half of the MAC, but not the first.
TEST(SessionKeyTest, KeysOfThisBootCannotBeMadeElsewhere) {
  const SessionKeys keys({.boot = 1}), forger({.boot = 1});
  const SessionKeys::Classified classified = keys.Classify(forger.Make("t").Text(), "t");
  EXPECT_EQ(classified.kind, Kind::kOurs);
  EXPECT_FALSE(keys.Verify(classified.key, "t"));
}

TEST(SessionKeyTest, WithASharedSecretAnotherBootsForgeriesAreUnknown) {
  const std::string secret(32, 's');
  const SessionKeys before({.secrets = {secret}, .boot = 1}), after({.secrets = {secret}, .boot = 2}),
      forger({.secrets = {}, .boot = 1});
  EXPECT_EQ(after.Classify(before.Make("t").Text(), "t").kind, Kind::kOtherBoot);
  EXPECT_EQ(after.Classify(before.Make("t").Text(), "u").kind, Kind::kUnknown);
  EXPECT_EQ(after.Classify(forger.Make("t").Text(), "t").kind, Kind::kUnknown);
}

TEST(SessionKeyTest, KeysDiffer) {
  const SessionKeys keys({});
  std::set<std::string> seen;
  for (int k = 0; k < 1000; ++k) seen.insert(keys.Make("").Text());
  EXPECT_EQ(seen.size(), 1000u);
}

}  // namespace
}  // namespace rnnserve
