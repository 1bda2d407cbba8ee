// SPDX-License-Identifier: Apache-2.0
// Models.Upload over a real connection, by callers that do it wrong: whatever they do, it is refused in time, with what
// is wrong, and nothing of it stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <list>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/server/api/raw_call.h"
#include "tests/server/api/running_server.h"

namespace rnnserve {
namespace {

using testing::HasSubstr;

constexpr int64_t kBudget = 8 << 20;

RunningServer::Setup SmallServer(absl::Duration max_pause = absl::Minutes(1)) {
  RunningServer::Setup setup;
  setup.core.max_bytes_in_flight = kBudget;
  setup.server.transfers.max_pause = max_pause;
  setup.server.transfers.max_streams = 4;
  return setup;
}

// One upload under way.
struct Upload {
  explicit Upload(RunningServer& server) : writer(server.models->Upload(&context, &response)) {}

  bool Begin(int64_t bytes, const std::string& name = "m") {
    v1::UploadRequest message;
    message.mutable_begin()->set_name(name);
    message.mutable_begin()->set_file_bytes(bytes);
    return writer->Write(message);
  }
  bool Chunk(size_t bytes) {
    v1::UploadRequest message;
    message.set_chunk(std::string(bytes, 'x'));
    return writer->Write(message);
  }
  // Writes until the server has refused it.
  grpc::Status Refused() {
    while (Chunk(1)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return writer->Finish();
  }
  grpc::Status End() {
    writer->WritesDone();
    return writer->Finish();
  }

  grpc::ClientContext context;
  v1::LoadResponse response;
  std::unique_ptr<grpc::ClientWriter<v1::UploadRequest>> writer;
};

class UploadTest : public testing::Test {
 protected:
  ~UploadTest() override {
    for (int k = 0; k < 500 && server_.core.bytes_in_flight() > 0; ++k) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_EQ(server_.core.bytes_in_flight(), 0);
    EXPECT_TRUE(server_.store.ListAll().empty());
  }

  RunningServer server_{SmallServer()};
};

TEST_F(UploadTest, TellsWhatIsWrongWithTheFileOnceItIsWhole) {
  Upload upload(server_);
  ASSERT_TRUE(upload.Begin(3 << 20));
  for (int k = 0; k < 3; ++k) ASSERT_TRUE(upload.Chunk(1 << 20));
  const grpc::Status status = upload.End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(FieldIn(status), "chunk");
  EXPECT_THAT(status.error_message(), HasSubstr("the file: "));
}

TEST_F(UploadTest, RefusesAHalfFile) {
  Upload upload(server_);
  ASSERT_TRUE(upload.Begin(3 << 20));
  ASSERT_TRUE(upload.Chunk(1 << 20));
  const grpc::Status status = upload.End();
  EXPECT_EQ(FieldIn(status), "begin.file_bytes");
  EXPECT_THAT(status.error_message(), HasSubstr("1048576 of 3145728"));
}

TEST_F(UploadTest, RefusesACallWithoutAMessage) {
  const grpc::Status status = Upload(server_).End();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
}

TEST_F(UploadTest, RefusesSizesAndEnginesBeforeTheFileHasCome) {
  for (const int64_t bytes : {int64_t{0}, int64_t{-5}, int64_t{1} << 31, INT64_MAX, INT64_MIN}) {
    Upload upload(server_);
    ASSERT_TRUE(upload.Begin(bytes));
    EXPECT_EQ(FieldIn(upload.Refused()), "begin.file_bytes") << bytes;
  }
  Upload upload(server_);
  v1::UploadRequest message;
  message.mutable_begin()->set_name("m");
  message.mutable_begin()->set_file_bytes(10);
  message.mutable_begin()->set_engine("abacus");
  ASSERT_TRUE(upload.writer->Write(message));
  EXPECT_EQ(FieldIn(upload.Refused()), "begin.engine");
}

TEST_F(UploadTest, RefusesMoreThanTheFileHas) {
  Upload upload(server_);
  ASSERT_TRUE(upload.Begin(10));
  ASSERT_TRUE(upload.Chunk(10));
  EXPECT_EQ(FieldIn(upload.Refused()), "chunk");
}

TEST(UploadPauseTest, EndsOneThatStalls) {
  RunningServer server(SmallServer(absl::Milliseconds(300)));
  for (const bool has_begun : {false, true}) {
    Upload upload(server);
    if (has_begun) {
      ASSERT_TRUE(upload.Begin(10) && upload.Chunk(1));
    }
    const auto began = std::chrono::steady_clock::now();
    const grpc::Status status = upload.writer->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    EXPECT_THAT(status.error_message(), HasSubstr("300ms from one message to the next"));
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  }
}

TEST(UploadPauseTest, LeavesOneThatIsSlowButMoves) {
  RunningServer server(SmallServer(absl::Seconds(2)));
  Upload upload(server);
  ASSERT_TRUE(upload.Begin(24));
  for (int k = 0; k < 24; ++k) {  // longer than a pause, all together
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ASSERT_TRUE(upload.Chunk(1));
  }
  EXPECT_THAT(upload.End().error_message(), HasSubstr("the file: "));
}

TEST_F(UploadTest, ForgetsOneThatIsCancelled) {
  Upload upload(server_);
  ASSERT_TRUE(upload.Begin(2 << 20));
  ASSERT_TRUE(upload.Chunk(1 << 20));
  upload.context.TryCancel();
  EXPECT_EQ(upload.writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(UploadTest, BoundsTheMemoryOfAllTogether) {
  Upload first(server_);
  ASSERT_TRUE(first.Begin(kBudget * 3 / 4));
  ASSERT_TRUE(first.Chunk(1));
  while (server_.core.bytes_in_flight() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  Upload second(server_);
  ASSERT_TRUE(second.Begin(kBudget * 3 / 4));
  const grpc::Status status = second.Refused();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr(absl::StrCat(kBudget)));
  first.End();
}

TEST_F(UploadTest, TakesMemoryForWhatHasCome) {
  Upload upload(server_);
  ASSERT_TRUE(upload.Begin(int64_t{1} << 30));
  ASSERT_TRUE(upload.Chunk(1));
  while (server_.core.bytes_in_flight() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_LE(server_.core.bytes_in_flight(), 32 << 20);
  upload.End();
}

TEST_F(UploadTest, BoundsTheirNumber) {
  std::list<Upload> uploads;
  for (int k = 0; k < 6; ++k) uploads.emplace_back(server_);
  for (Upload& upload : uploads) upload.writer->WaitForInitialMetadata();  // until it is inside, or refused
  int refused = 0;
  for (Upload& upload : uploads) refused += upload.End().error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
  EXPECT_EQ(refused, 2);
}

TEST_F(UploadTest, ADrainingServerTakesNoFurtherChunk) {
  Upload upload(server_);
  ASSERT_TRUE(upload.Begin(1 << 20));
  ASSERT_TRUE(upload.Chunk(1));
  while (server_.core.bytes_in_flight() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::thread drain([&] { server_.server->Drain(SteadyNow() + absl::Seconds(20)); });
  const grpc::Status status = upload.Refused();
  drain.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_EQ(ReasonIn(status), "DRAINING");
}

}  // namespace
}  // namespace rnnserve
