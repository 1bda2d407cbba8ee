// SPDX-License-Identifier: Apache-2.0
#include "server/files/plain_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace rnnserve {
namespace {

class PlainFileTest : public testing::Test {
 protected:
  PlainFileTest() {
    std::string made = (std::filesystem::temp_directory_path() / "plain-file-XXXXXX").string();
    EXPECT_NE(mkdtemp(made.data()), nullptr);
    folder_ = made;
  }
  ~PlainFileTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::string Written(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
    return Path(name);
  }

  std::filesystem::path folder_;
};

void ExpectRefused(const std::string& path, const std::string& why) {
  const absl::StatusOr<std::string> read = ReadPlainFile(path, 100);
  ASSERT_TRUE(absl::IsFailedPrecondition(read.status()));
  EXPECT_EQ(read.status().message(), path + ": " + why);
}

TEST_F(PlainFileTest, AsLargeAsMayBe) {
  for (const size_t size : {0, 1, 99, 100}) {
    const std::string text(size, 'x');
    EXPECT_EQ(ReadPlainFile(Written("file", text), 100).value(), text);
  }
  ExpectRefused(Written("file", std::string(101, 'x')), "has more than 100 bytes, which no file of its kind has");
}

TEST_F(PlainFileTest, OnesThatSayTheyAreEmpty) {
  EXPECT_GT(ReadPlainFile("/proc/self/status", 100'000).value().size(), 100U);
  ExpectRefused("/proc/self/status", "has more than 100 bytes, which no file of its kind has");
}

TEST_F(PlainFileTest, LinksAreFollowed) {
  std::filesystem::create_directory(folder_ / "..2026");
  Written("..2026/tokens", "a token");
  std::filesystem::create_directory_symlink("..2026", folder_ / "..data");
  std::filesystem::create_symlink("..data/tokens", folder_ / "tokens");
  EXPECT_EQ(ReadPlainFile(Path("tokens"), 100).value(), "a token");
}

// Opening a pipe would wait for a writer.
TEST_F(PlainFileTest, WhatIsNoFileIsRefusedAtOnce) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", folder_ / "link");
  for (const char* name : {"pipe", "link", ""}) ExpectRefused(Path(name), "cannot be read: it is no plain file");
  ExpectRefused("/dev/zero", "cannot be read: it is no plain file");
}

TEST_F(PlainFileTest, WhatCannotBeOpened) {
  ExpectRefused(Path("none"), "cannot be read: No such file or directory");
  std::filesystem::create_symlink("gone", folder_ / "dangling");
  ExpectRefused(Path("dangling"), "cannot be read: No such file or directory");
}

}  // namespace
}  // namespace rnnserve
