// SPDX-License-Identifier: Apache-2.0
#include "server/api/native/upload_assembly.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"

namespace rnnserve {
namespace {

using testing::HasSubstr;

constexpr int64_t kLargest = 4 << 20;

v1::UploadRequest Begin(int64_t bytes, const std::string& name = "m") {
  v1::UploadRequest message;
  message.mutable_begin()->set_name(name);
  message.mutable_begin()->set_file_bytes(bytes);
  return message;
}

v1::UploadRequest Chunk(const std::string& bytes) {
  v1::UploadRequest message;
  message.set_chunk(bytes);
  return message;
}

void ExpectRefused(const absl::Status& status, const std::string& field, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(FieldOf(status).value_or(""), field) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

TEST(UploadAssembly, GivesTheFileWholeWhateverTheCuts) {
  const std::string file = "the bytes of a file";
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    UploadAssembly assembly(kLargest);
    ASSERT_TRUE(assembly.Add(Begin(static_cast<int64_t>(file.size()))).ok());
    for (size_t at = 0; at < file.size();) {
      const size_t length = std::uniform_int_distribution<size_t>(1, file.size() - at)(random);
      ASSERT_TRUE(assembly.Add(Chunk(file.substr(at, length))).ok());
      at += length;
      EXPECT_EQ(assembly.received(), static_cast<int64_t>(at));
    }
    EXPECT_EQ(assembly.Take().value(), file);
  }
}

TEST(UploadAssembly, KeepsWhatBeginSays) {
  UploadAssembly assembly(kLargest);
  v1::UploadRequest begin = Begin(5, "vad");
  begin.mutable_begin()->set_version(7);
  begin.mutable_begin()->set_engine("cpu");
  begin.mutable_begin()->mutable_options()->set_deterministic(true);
  EXPECT_FALSE(assembly.has_begun());
  ASSERT_TRUE(assembly.Add(begin).ok());
  EXPECT_TRUE(assembly.has_begun());
  EXPECT_EQ(assembly.upload().name, "vad");
  EXPECT_EQ(assembly.upload().version, 7);
  EXPECT_EQ(assembly.upload().engine, "cpu");
  EXPECT_EQ(assembly.upload().options.deterministic, true);
}

TEST(UploadAssembly, RefusesSizesThatNoFileHas) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  for (const int64_t bytes : {int64_t{0}, int64_t{-1}, kLargest + 1, kMost, kLeast}) {
    UploadAssembly assembly(kLargest);
    ExpectRefused(assembly.Add(Begin(bytes)), "begin.file_bytes", absl::StrCat(bytes));
    EXPECT_FALSE(assembly.has_begun());
  }
  UploadAssembly largest(kLargest);
  EXPECT_TRUE(largest.Add(Begin(kLargest)).ok());
}

TEST(UploadAssembly, RefusesNamesVersionsAndOptionsByTheirPaths) {
  const auto refused = [](auto change) {
    v1::UploadRequest message = Begin(1);
    change(*message.mutable_begin());
    return FieldOf(UploadAssembly(kLargest).Add(message)).value_or("");
  };
  EXPECT_EQ(refused([](auto& begin) { begin.set_name("a/b"); }), "begin.name");
  EXPECT_EQ(refused([](auto& begin) { begin.set_version(0); }), "begin.version");
  EXPECT_EQ(
      refused([](auto& begin) { begin.mutable_options()->set_empty_row_state(static_cast<v1::EmptyRowState>(9)); }),
      "begin.options.empty_row_state");
}

TEST(UploadAssembly, RefusesMessagesOutOfOrder) {
  ExpectRefused(UploadAssembly(kLargest).Add(Chunk("x")), "chunk", "send begin");
  ExpectRefused(UploadAssembly(kLargest).Add(v1::UploadRequest()), "part", "brings nothing");
  UploadAssembly twice(kLargest);
  ASSERT_TRUE(twice.Add(Begin(3)).ok());
  ASSERT_TRUE(twice.Add(Chunk("a")).ok());
  ExpectRefused(twice.Add(Begin(3)), "", "a second begin");
  ExpectRefused(twice.Add(v1::UploadRequest()), "part", "brings nothing");
}

TEST(UploadAssembly, RefusesChunksThatAreEmptyTooLargeOrTooMany) {
  UploadAssembly assembly(kLargest);
  ASSERT_TRUE(assembly.Add(Begin(kLargest)).ok());
  ExpectRefused(assembly.Add(Chunk("")), "chunk", "has 0");
  const auto most = static_cast<size_t>(UploadAssembly::kMaxChunkBytes);
  ExpectRefused(assembly.Add(Chunk(std::string(most + 1, 'x'))), "chunk", "1048577");
  for (int k = 0; k < 4; ++k) ASSERT_TRUE(assembly.Add(Chunk(std::string(most, 'x'))).ok());
  ExpectRefused(assembly.Add(Chunk("y")), "chunk", "4194305");
  EXPECT_EQ(assembly.Take().value().size(), 4 * most);
}

TEST(UploadAssembly, RefusesAFileThatIsNotWhole) {
  ExpectRefused(UploadAssembly(kLargest).Take().status(), "", "no message");
  UploadAssembly assembly(kLargest);
  ASSERT_TRUE(assembly.Add(Begin(3)).ok());
  ExpectRefused(assembly.Take().status(), "begin.file_bytes", "0 of 3");
  ASSERT_TRUE(assembly.Add(Chunk("ab")).ok());
  ExpectRefused(assembly.Take().status(), "begin.file_bytes", "2 of 3");
}

}  // namespace
}  // namespace rnnserve
