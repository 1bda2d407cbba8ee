// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/attributes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/rnnctl/arguments.h"

namespace rnnserve::rnnctl {
namespace {

using testing::HasSubstr;

AttributeValue Value(std::string_view text) {
  const auto attribute = ParseAttribute(text);
  EXPECT_TRUE(attribute.ok()) << attribute.status();
  return attribute.ok() ? attribute->second : AttributeValue();
}

std::string Why(std::string_view text) {
  const auto attribute = ParseAttribute(text);
  EXPECT_FALSE(attribute.ok());
  EXPECT_TRUE(IsUsageError(attribute.status()));
  return std::string(attribute.status().message());
}

TEST(AttributesTest, KindsFollowTheOperatorsTexts) {
  EXPECT_EQ(Value("clip=3.5"), AttributeValue(3.5f));
  EXPECT_EQ(Value("clip=3"), AttributeValue(3.0f));
  EXPECT_EQ(Value("hidden_size=7"), AttributeValue(int64_t{7}));
  EXPECT_EQ(Value("direction=bidirectional"), AttributeValue(std::string("bidirectional")));
  EXPECT_EQ(Value("activations=Tanh,Relu"), AttributeValue(std::vector<std::string>{"Tanh", "Relu"}));
  EXPECT_EQ(Value("activations="), AttributeValue(std::vector<std::string>{}));
  EXPECT_EQ(Value("activation_alpha=0.5,-2"), AttributeValue(std::vector<float>{0.5f, -2}));
  EXPECT_EQ(Value("activations_beta=1"), AttributeValue(std::vector<float>{1}));
  EXPECT_EQ(Value("linear_before_reset=true"), AttributeValue(int64_t{1}));
  EXPECT_EQ(Value("linear_before_reset=0"), AttributeValue(int64_t{0}));
}

TEST(AttributesTest, AKindCanBeSaid) {
  EXPECT_EQ(Value("novel:float=2"), AttributeValue(2.0f));
  EXPECT_EQ(Value("novel:ints=1,2"), AttributeValue(std::vector<int64_t>{1, 2}));
  EXPECT_EQ(Value("clip:int=2"), AttributeValue(int64_t{2}));
  EXPECT_EQ(ParseAttribute("novel:string=a=b")->first, "novel");
  EXPECT_EQ(Value("novel:string=a=b"), AttributeValue(std::string("a=b")));
}

TEST(AttributesTest, MistakesSayWhatWasExpected) {
  EXPECT_THAT(Why("clip"), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(Why("=1"), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(Why("clip=wide"), HasSubstr("a number such as 3.5, got 'wide'"));
  EXPECT_THAT(Why("hidden_size=1.5"), HasSubstr("a whole number"));
  EXPECT_THAT(Why("hidden_size=99999999999999999999"), HasSubstr("a whole number"));
  EXPECT_THAT(Why("activation_alpha=1,,2"), HasSubstr("a number"));
  EXPECT_THAT(Why("activation=Tanh"), HasSubstr("did you mean activations?"));
  EXPECT_THAT(Why("novel=1"), HasSubstr("known are activation_alpha"));
  EXPECT_THAT(Why("novel:thing=1"), HasSubstr("known are int, float"));
  const std::vector<std::string> twice = {"clip=1", "clip=2"};
  EXPECT_THAT(std::string(ParseAttributes(twice).status().message()), HasSubstr("clip is given twice"));
}

TEST(AttributesTest, TextIsWhatWouldBeGiven) {
  for (const char* text :
       {"clip=3.5", "layout=1", "direction=reverse", "activations=Tanh,Relu", "activation_alpha=0.5,2"}) {
    const auto attribute = ParseAttribute(text);
    EXPECT_EQ(attribute->first + "=" + AttributeText(attribute->second), text);
  }
}

}  // namespace
}  // namespace rnnserve::rnnctl
