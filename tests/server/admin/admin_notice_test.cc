// SPDX-License-Identifier: Apache-2.0
#include "server/admin/admin_notice.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>

namespace rnnserve {
namespace {

TEST(AdminNotice, IsFoundByProcessesOfTheSameProgram) {
  const auto own = [] {
    const std::vector<AdminNotice> all = ReadAdminNotices();
    const auto found = std::ranges::find(all, getpid(), &AdminNotice::process);
    return found == all.end() ? "none" : found->listen;
  };
  EXPECT_EQ(own(), "none");
  ASSERT_TRUE(PostAdminNotice("0.0.0.0:0", 4711).ok());
  EXPECT_EQ(own(), "0.0.0.0:4711");
}

TEST(AdminNotice, OfProcess1GoesBeforeOthers) {
  EXPECT_EQ(ChooseAdminPort({{1, "a:1"}, {7, "b:2"}}).value(), "a:1");
  EXPECT_EQ(ChooseAdminPort({{7, "b:2"}}).value(), "b:2");
}

TEST(AdminNotice, IsRefusedWhereItSaysNoPort) {
  EXPECT_TRUE(absl::IsNotFound(ChooseAdminPort({}).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(ChooseAdminPort({{1, ""}, {7, "b:2"}}).status()));
  const absl::Status several = ChooseAdminPort({{7, "b:2"}, {8, ""}}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(several));
  EXPECT_THAT(std::string(several.message()), testing::HasSubstr("process 7 at b:2, process 8 at no port"));
}

TEST(FindAdminPort, IsWhatTheFlagsNameIfTheyName) {
  EXPECT_EQ(FindAdminPort("1.2.3.4:5", /*is_default=*/false).value(), "1.2.3.4:5");
  EXPECT_EQ(FindAdminPort("", /*is_default=*/false).value(), "");
}

}  // namespace
}  // namespace rnnserve
