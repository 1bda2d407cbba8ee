// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rnnserve::rnnctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Flag kFlags[] = {{.name = "server", .value = "HOST:PORT", .help = ""},
                           {.name = "tensor", .value = "NAME=FILE", .help = "", .repeated = true},
                           {.name = "json", .value = "", .help = ""},
                           {.name = "out", .value = "FILE", .help = "", .short_name = 'o'}};

absl::StatusOr<Arguments> Parse(const std::vector<std::string>& words) { return Arguments::Parse(words, kFlags); }

std::string Why(const std::vector<std::string>& words) {
  const auto arguments = Parse(words);
  EXPECT_FALSE(arguments.ok());
  EXPECT_TRUE(IsUsageError(arguments.status()));
  return std::string(arguments.status().message());
}

TEST(ArgumentsTest, BothFormsOfValuesAndPositionalsBetween) {
  const auto arguments = Parse({"a.json", "--server=h:1", "--tensor", "X=x.npy", "--tensor=W=w.npy", "--json", "-"});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_EQ(arguments->Get("server"), "h:1");
  EXPECT_THAT(arguments->All("tensor"), ElementsAre("X=x.npy", "W=w.npy"));
  EXPECT_TRUE(arguments->Has("json"));
  EXPECT_THAT(arguments->positional(), ElementsAre("a.json", "-"));
  EXPECT_EQ(arguments->Get("absent"), std::nullopt);
  EXPECT_THAT(arguments->All("absent"), ElementsAre());
}

TEST(ArgumentsTest, NegativeAndEmptyValues) {
  EXPECT_EQ(Parse({"--server", "-5"})->Get("server"), "-5");
  EXPECT_EQ(Parse({"--server="})->Get("server"), "");
  EXPECT_EQ(Parse({"--server=--json"})->Get("server"), "--json");
}

TEST(ArgumentsTest, ShortNames) {
  EXPECT_EQ(Parse({"-o", "x", "y"})->Get("out"), "x");
  EXPECT_EQ(Parse({"-o=x"})->Get("out"), "x");
  EXPECT_THAT(Why({"-o"}), HasSubstr("--out needs a value"));
  EXPECT_THAT(Why({"-o", "x", "--out=y"}), HasSubstr("--out is given twice"));
  EXPECT_EQ(Why({"--o=x"}), "unknown flag --o");
  EXPECT_EQ(Why({"-q"}), "unknown flag -q");
}

TEST(ArgumentsTest, TwoDashesEndFlags) {
  EXPECT_THAT(Parse({"--json", "--", "--server", "-x"})->positional(), ElementsAre("--server", "-x"));
}

TEST(ArgumentsTest, HelpIsAlwaysUnderstood) {
  EXPECT_TRUE(Parse({"--help"})->Has("help"));
  EXPECT_TRUE(Parse({"x", "-h"})->Has("help"));
}

TEST(ArgumentsTest, MistakesNameTheFlagAndTheFix) {
  EXPECT_THAT(Why({"--sever=h:1"}), HasSubstr("did you mean --server?"));
  EXPECT_EQ(Why({"--frobnicate"}), "unknown flag --frobnicate");
  EXPECT_THAT(Why({"-server", "h"}), HasSubstr("two dashes: --server"));
  EXPECT_THAT(Why({"--server"}), HasSubstr("--server needs a value: --server=HOST:PORT"));
  EXPECT_THAT(Why({"--server", "--json"}), HasSubstr("needs a value"));
  EXPECT_THAT(Why({"--json=yes"}), HasSubstr("takes no value"));
  EXPECT_THAT(Why({"--server=a", "--server=b"}), HasSubstr("given twice"));
  EXPECT_THAT(Why({"---"}), HasSubstr("unknown flag ---"));
}

}  // namespace
}  // namespace rnnserve::rnnctl
