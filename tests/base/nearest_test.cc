// SPDX-License-Identifier: Apache-2.0
#include "base/nearest.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace rnnserve {
namespace {

TEST(NearestTest, IsNearEnoughToBeMeant) {
  constexpr std::string_view kWords[] = {"infer", "models", "version"};
  EXPECT_EQ(Nearest("infr", kWords), "infer");
  EXPECT_EQ(Nearest("model", kWords), "models");
  EXPECT_EQ(Nearest("xyz", kWords), "");
  EXPECT_EQ(Nearest("", kWords), "");
  const std::string long_word(64, 'x');
  const std::string_view candidates[] = {long_word};
  EXPECT_EQ(Nearest(long_word, candidates), long_word);
  EXPECT_EQ(Nearest(long_word + "x", candidates), "") << "costs too much";
}

}  // namespace
}  // namespace rnnserve
