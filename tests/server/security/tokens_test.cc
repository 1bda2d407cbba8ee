// SPDX-License-Identifier: Apache-2.0
#include "server/security/tokens.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace rnnserve {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kAlice[] = "token-of-alice-0001";
constexpr char kBob[] = "token-of-bob-000002";
// printf 'token-of-carol-0003' | sha256sum
constexpr char kCarolHashed[] = "sha256:d30a0ffe438159ba3bdf478f086912cb4ed5c99ce8cc15c3d580243d0656bb63";

class TokensTest : public testing::Test {
 protected:
  ~TokensTest() override { std::filesystem::remove(path_); }

  // In place of the old file at once, and never of the same version.
  void Write(const std::string& text) {
    const std::string next = path_ + ".next";
    std::ofstream(next) << text << std::string(static_cast<size_t>(++writes_), '\n');
    ASSERT_EQ(std::rename(next.c_str(), path_.c_str()), 0);
  }

  std::string Error(const std::string& text) {
    Write(text);
    const auto tokens = Tokens::Load(path_);
    EXPECT_EQ(tokens.status().code(), absl::StatusCode::kFailedPrecondition) << text;
    return std::string(tokens.status().message());
  }

  const std::string path_ =
      testing::TempDir() + "/tokens-" + testing::UnitTest::GetInstance()->current_test_info()->name();
  int writes_ = 0;
};

TEST_F(TokensTest, KnowsWhoseTheyAre) {
  Write(std::string("# comment\n\nalice ") + kAlice + " models # and more\n  bob\t" + kBob + "\ncarol " + kCarolHashed);
  const auto tokens = Tokens::Load(path_);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  const CallerPtr alice = (*tokens)->Find(kAlice), bob = (*tokens)->Find(kBob),
                  carol = (*tokens)->Find("token-of-carol-0003");
  ASSERT_TRUE(alice && bob && carol);
  EXPECT_EQ(alice->tenant, "alice");
  EXPECT_TRUE(alice->may_change_models);
  EXPECT_EQ(bob->tenant, "bob");
  EXPECT_FALSE(bob->may_change_models);
  EXPECT_EQ(carol->tenant, "carol");
  for (const std::string wrong : {"", "alice", "token-of-alice-000", "token-of-alice-00011", kCarolHashed}) {
    EXPECT_EQ((*tokens)->Find(wrong), nullptr) << wrong;
  }
}

TEST_F(TokensTest, WrongLinesAreToldByNumberWithoutTheToken) {
  EXPECT_THAT(Error("\nalice"), HasSubstr("line 2: expected a tenant"));
  EXPECT_THAT(Error("alice short-secret"),
              AllOf(HasSubstr("line 1: expected a token of at least 16"), Not(HasSubstr("short-secret"))));
  EXPECT_THAT(Error("al/ice token-of-alice-0001"), AllOf(HasSubstr("tenant"), Not(HasSubstr("token-of"))));
  EXPECT_THAT(Error("alice sha256:12345678901234567890"), HasSubstr("64 hexadecimal digits"));
  EXPECT_THAT(Error("alice token-of-alice-0001 token-of-bob-000002"),
              AllOf(HasSubstr("word 3 is no permission"), Not(HasSubstr("token-of"))));
  EXPECT_THAT(Error("alice token-of-alice-0001\nbob token-of-alice-0001"),
              AllOf(HasSubstr("line 2"), Not(HasSubstr("token-of"))));
  EXPECT_FALSE(Tokens::Load(path_ + ".nothing").ok());
}

TEST_F(TokensTest, AreReadAgain) {
  Write(std::string("alice ") + kAlice + "\nbob " + kBob);
  const auto tokens = Tokens::Load(path_);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  const CallerPtr alice = (*tokens)->Find(kAlice), bob = (*tokens)->Find(kBob);
  Write(std::string("bob ") + kBob + "\ncarol " + kCarolHashed);
  (*tokens)->Refresh();
  EXPECT_NE((*tokens)->Find("token-of-carol-0003"), nullptr);
  EXPECT_EQ((*tokens)->Find(kAlice), nullptr);
  EXPECT_TRUE(alice->revoked.load());
  EXPECT_EQ((*tokens)->Find(kBob), bob) << "who is as before stays the same";
  EXPECT_FALSE(bob->revoked.load());
}

// Opening it would wait for a writer, and the destructor for that.
TEST_F(TokensTest, APipeInPlaceOfTheFileHoldsNothingUp) {
  Write(std::string("alice ") + kAlice);
  const auto tokens = Tokens::Load(path_);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  const std::string pipe = path_ + ".next";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ASSERT_EQ(std::rename(pipe.c_str(), path_.c_str()), 0);
  (*tokens)->Refresh();
  EXPECT_NE((*tokens)->Find(kAlice), nullptr);
  EXPECT_THAT(std::string(Tokens::Load(path_).status().message()), HasSubstr("it is no plain file"));
}

TEST_F(TokensTest, ABrokenFileChangesNothing) {
  Write(std::string("alice ") + kAlice);
  const auto tokens = Tokens::Load(path_);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  const CallerPtr alice = (*tokens)->Find(kAlice);
  Write(std::string("bob ") + kBob + "\nbroken");
  (*tokens)->Refresh();
  EXPECT_EQ((*tokens)->Find(kAlice), alice);
  EXPECT_EQ((*tokens)->Find(kBob), nullptr);
  std::remove(path_.c_str());
  (*tokens)->Refresh();
  EXPECT_EQ((*tokens)->Find(kAlice), alice);
  EXPECT_FALSE(alice->revoked.load());
}

TEST_F(TokensTest, ATokenMayHoldTheSignOfComments) {
  Write("alice 0123456789abcdef#secret models #and more\n#bob 0123456789abcdef");
  const auto tokens = Tokens::Load(path_);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  ASSERT_NE((*tokens)->Find("0123456789abcdef#secret"), nullptr);
  EXPECT_TRUE((*tokens)->Find("0123456789abcdef#secret")->may_change_models);
  EXPECT_EQ((*tokens)->Find("0123456789abcdef"), nullptr);
}

TEST_F(TokensTest, AFolderIsNoFileOfTokens) {
  EXPECT_EQ(Tokens::Load(testing::TempDir()).status().code(), absl::StatusCode::kFailedPrecondition);
  Write(std::string("alice ") + kAlice);
  const auto tokens = Tokens::Load(path_);
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  (*tokens)->Refresh();
  EXPECT_NE((*tokens)->Find(kAlice), nullptr);
}

TEST_F(TokensTest, AnEmptyFileTakesAllAway) {
  Write(std::string("alice ") + kAlice);
  const auto tokens = Tokens::Load(path_);
  Write("");
  (*tokens)->Refresh();
  EXPECT_EQ((*tokens)->Find(kAlice), nullptr);
}

TEST_F(TokensTest, AFileThatCouldNotBeReadIsTriedAgain) {
  Write(std::string("alice ") + kAlice);
  const auto tokens = Tokens::Load(path_);
  Write(std::string("bob ") + kBob);
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  (*tokens)->Refresh();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_NE((*tokens)->Find(kAlice), nullptr);
  (*tokens)->Refresh();
  EXPECT_EQ((*tokens)->Find(kAlice), nullptr);
  EXPECT_NE((*tokens)->Find(kBob), nullptr);
}

TEST_F(TokensTest, AChangedPermissionTakesTheOldOneAway) {
  Write(std::string("alice ") + kAlice + " models");
  const auto tokens = Tokens::Load(path_);
  const CallerPtr before = (*tokens)->Find(kAlice);
  Write(std::string("alice ") + kAlice);
  (*tokens)->Refresh();
  EXPECT_TRUE(before->revoked.load());
  EXPECT_FALSE((*tokens)->Find(kAlice)->may_change_models);
}

}  // namespace
}  // namespace rnnserve
