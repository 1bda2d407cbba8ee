// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/sessions/session_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rnnserve::rnnctl {
namespace {

using client::MakeTensor;
using client::SessionState;
using testing::HasSubstr;

const SessionState kState{7,
                          112,
                          std::string(64, 'a'),
                          {MakeTensor("initial_h", {1, 1, 3}, std::vector<float>{0.1f, -2, 1e-30f}),
                           MakeTensor("initial_c", {1, 1, 3}, std::vector<double>{0.1, -2, 1e-300})}};

TEST(SessionFileTest, WhatIsWrittenIsRead) {
  const auto read = ParseSession(FormatSession(kState));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->number, 7);
  EXPECT_EQ(read->position, 112);
  EXPECT_EQ(read->fingerprint, kState.fingerprint);
  ASSERT_EQ(read->tensors.size(), 2);
  for (size_t k = 0; k < 2; ++k) {
    EXPECT_EQ(read->tensors[k].name, kState.tensors[k].name);
    EXPECT_EQ(read->tensors[k].type, kState.tensors[k].type);
    EXPECT_EQ(read->tensors[k].shape, kState.tensors[k].shape);
    EXPECT_EQ(read->tensors[k].bytes, kState.tensors[k].bytes);
  }
}

// No byte of the file can be changed so that another state is read.
TEST(SessionFileTest, DamageIsNoticedWhereverItIs) {
  const std::string good = FormatSession(kState);
  for (size_t k = 0; k < good.size(); ++k) {
    for (const char other : {'0', 'A', '"', ' '}) {
      std::string bad = good;
      if (bad[k] == other) continue;
      bad[k] = other;
      const auto read = ParseSession(bad);
      if (read.ok()) {
        EXPECT_EQ(FormatSession(*read), good) << "byte " << k;
      }
    }
  }
}

TEST(SessionFileTest, OtherFilesAreToldApart) {
  EXPECT_THAT(std::string(ParseSession("{}").status().message()), HasSubstr("no session file"));
  EXPECT_THAT(std::string(ParseSession("{\"format\": \"rnnserve-session-9\"}").status().message()),
              HasSubstr("another format"));
  EXPECT_THAT(std::string(ParseSession("\x93NUMPY").status().message()), HasSubstr("no session file"));
}

}  // namespace
}  // namespace rnnserve::rnnctl
