// SPDX-License-Identifier: Apache-2.0
#include "server/sessions/contract/session_key.h"

#include <gtest/gtest.h>

#include <set>

namespace rnnserve {
namespace {

using Kind = SessionKeys::Kind;

TEST(SessionKeyTest, OwnKeysAreOursAndVerify) {
  const SessionKeys keys({});
  const SessionKeys::Key key = keys.Make("tenant");
  const SessionKeys::Classified classified = keys.Classify(keys.Text(key), "tenant");
  ASSERT_EQ(classified.kind, Kind::kOurs);
  EXPECT_EQ(classified.key.id, key.id);
  EXPECT_TRUE(keys.Verify(classified.key, "tenant"));
  EXPECT_FALSE(keys.Verify(classified.key, "another tenant"));
}

TEST(SessionKeyTest, EveryChangedLetterMakesItUnknown) {
  const SessionKeys keys({}), another({});
  const std::string text = keys.Text(keys.Make("tenant"));
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
  const std::string text = keys.Text(keys.Make(""));
  for (const std::string& wrong : {std::string(), std::string("x"), text + "A", text.substr(1), std::string(56, '\0'),
                                   std::string(56, '!'), std::string(56, 'A'), std::string(1 << 20, 'A')}) {
    EXPECT_EQ(keys.Classify(wrong, "").kind, Kind::kUnknown) << wrong.size();
  }
}

TEST(SessionKeyTest, AnotherBootIsToldApart) {
  const SessionKeys before({}), after({});
  EXPECT_EQ(after.Classify(before.Text(before.Make("t")), "t").kind, Kind::kOtherBoot);
  EXPECT_EQ(after.Classify(before.Text(before.Make("t")), "u").kind, Kind::kUnknown);
}

// Without a shared secret every caller may know the second half of the MAC, but not the first.
TEST(SessionKeyTest, KeysOfThisBootCannotBeMadeElsewhere) {
  const SessionKeys keys({.boot = 1}), forger({.boot = 1});
  const SessionKeys::Classified classified = keys.Classify(forger.Text(forger.Make("t")), "t");
  EXPECT_EQ(classified.kind, Kind::kOurs);
  EXPECT_FALSE(keys.Verify(classified.key, "t"));
}

TEST(SessionKeyTest, WithASharedSecretAnotherBootsForgeriesAreUnknown) {
  const std::string secret(32, 's');
  const SessionKeys before({.secrets = {secret}, .boot = 1}), after({.secrets = {secret}, .boot = 2}),
      forger({.secrets = {}, .boot = 1});
  EXPECT_EQ(after.Classify(before.Text(before.Make("t")), "t").kind, Kind::kOtherBoot);
  EXPECT_EQ(after.Classify(before.Text(before.Make("t")), "u").kind, Kind::kUnknown);
  EXPECT_EQ(after.Classify(forger.Text(forger.Make("t")), "t").kind, Kind::kUnknown);
}

TEST(SessionKeyTest, KeysDiffer) {
  const SessionKeys keys({});
  std::set<std::string> seen;
  for (int k = 0; k < 1000; ++k) seen.insert(keys.Text(keys.Make("")));
  EXPECT_EQ(seen.size(), 1000u);
}

}  // namespace
}  // namespace rnnserve
