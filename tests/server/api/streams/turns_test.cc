// SPDX-License-Identifier: Apache-2.0
// A caller that waits for each answer, whose next message the server reads late (server/rpc/turns.h), and then does not
// wait any more.
#include <gtest/gtest.h>

#include "tests/server/api/streams/mirror.h"
#include "tests/server/api/streams/session_server.h"

namespace rnnserve {
namespace {

constexpr int kTurns = 30;  // far more than show that the caller waits

class TurnsTest : public ::testing::Test {
 protected:
  TurnsTest() {
    grpc::ClientContext context;
    v1::OpenResponse opened;
    v1::OpenRequest open = OpenRemembering(1);
    open.set_max_in_flight(64);
    const grpc::Status status = connection_.sessions->Open(&context, open, &opened);
    EXPECT_TRUE(status.ok()) << status.error_message();
    key_ = opened.session();
    for (int k = 0; k < kTurns; ++k) {
      const Planned chunk = Next();
      stream_.Send({chunk.operation});
      Expect(chunk);
    }
  }

  Planned Next() {
    Planned chunk = PlanChunk(dice_, key_, now_, 1);
    chunk.operation.set_request_id(absl::StrCat(now_.number));
    now_ = chunk.after;
    return chunk;
  }
  void Expect(const Planned& chunk) {
    const std::optional<v1::OperationReply> reply = stream_.Await(chunk.operation.request_id());
    ASSERT_TRUE(reply);
    EXPECT_EQ(Mistake(chunk, *reply), "");
  }

  SessionServer server_{{.slices_on_poller = true}};
  CallerConnection connection_{server_.server->ports()[0]};
  StreamClient stream_{*connection_.recurrent};
  Dice dice_{1};
  Moment now_{0, 0, Rows(1, Memory(kRemembered))};
  std::string key_;
};

TEST_F(TurnsTest, MessagesThatAreSentAheadAreAnswered) {
  std::vector<Planned> chunks;
  for (int k = 0; k < 40; ++k) stream_.Send({chunks.emplace_back(Next()).operation});
  for (const Planned& chunk : chunks) Expect(chunk);
}

TEST_F(TurnsTest, AReadOfTheStateWaitsForTheChunkBeforeIt) {
  const Planned chunk = Next();
  v1::Operation read;
  read.set_request_id("read");
  read.mutable_get_state()->set_session(key_);
  read.mutable_get_state()->set_after_number(now_.number);
  stream_.Send({chunk.operation});
  stream_.Send({read});
  Expect(chunk);
  const std::optional<v1::OperationReply> reply = stream_.Await("read");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status().code(), 0) << reply->status().message();
}

TEST_F(TurnsTest, TheStreamEndsAfterTheAnswerToItsLastMessage) {
  const Planned chunk = Next();
  stream_.Send({chunk.operation});
  const grpc::Status status = stream_.End();
  EXPECT_TRUE(status.ok()) << status.error_message();
  Expect(chunk);
}

}  // namespace
}  // namespace rnnserve
