// SPDX-License-Identifier: Apache-2.0
// A caller that reads late, with gRPC's own limit of 4 MiB a message.
#include <gtest/gtest.h>

#include <thread>

#include "tests/server/api/streams/mirror.h"
#include "tests/server/api/streams/session_server.h"

namespace rnnserve {
namespace {

TEST(SlowReader, IsSentMessagesThatItTakes) {
  SessionServer server;
  const auto channel =
      grpc::CreateChannel("127.0.0.1:" + std::to_string(server.server->ports()[0]), grpc::InsecureChannelCredentials());
  const auto sessions = v1::Sessions::NewStub(channel);
  const auto recurrent = v1::Recurrent::NewStub(channel);
  constexpr int kChunks = 100;
  v1::OpenRequest open = OpenRemembering(64);
  open.set_max_in_flight(kChunks);
  open.set_window_bytes(64 << 20);
  v1::OpenResponse opened;
  {
    grpc::ClientContext context;
    const grpc::Status status = sessions->Open(&context, open, &opened);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  Dice dice(1);
  Moment now{0, 0, Rows(64, Memory(kRemembered))};
  std::vector<Planned> chunks;
  grpc::ClientContext context;
  const auto stream = recurrent->Stream(&context);
  v1::StreamRequest request;
  for (int k = 0; k < kChunks; ++k) {
    chunks.push_back(PlanChunk(dice, opened.session(), now, 40));  // 160 KiB of Y, unless it is left out
    now = chunks.back().after;
    *request.add_operations() = chunks.back().operation;
  }
  ASSERT_TRUE(stream->Write(request));
  const absl::StatusOr<SessionPtr> session = server.sessions.Find(opened.session(), "");
  ASSERT_TRUE(session.ok());
  while ((*session)->view().numbers.last_applied < kChunks) std::this_thread::yield();
  // All has been computed, far more than one message takes, and nothing has been read.
  ASSERT_TRUE(stream->WritesDone());
  size_t at = 0;
  int messages = 0;
  for (v1::StreamResponse response; stream->Read(&response); ++messages) {
    for (const v1::OperationReply& reply : response.replies()) {
      ASSERT_LT(at, chunks.size());
      ASSERT_EQ(Mistake(chunks[at], reply), "") << at;
      ++at;
    }
  }
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(at, chunks.size());
  EXPECT_LT(messages, kChunks) << "those that wait for the wire go together";
}

}  // namespace
}  // namespace rnnserve
