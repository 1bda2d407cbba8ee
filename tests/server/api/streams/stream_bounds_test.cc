// SPDX-License-Identifier: Apache-2.0
// A stream with more operations than it may have in flight.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/server/api/streams/mirror.h"
#include "tests/server/api/streams/session_server.h"

namespace rnnserve {
namespace {

// Reading pauses at the bound, goes on below it, and the stream ends: also where workers end operations while the
// stream waits for room.
TEST(StreamBounds, MoreOperationsThanMayBeInFlight) {
  for (const bool on_poller : {false, true}) {
    SessionServer::Setup setup;
    setup.slices_on_poller = on_poller;
    setup.server.streams.max_in_flight = 4;
    SessionServer server(std::move(setup));
    const CallerConnection caller(server.server->ports()[0]);
    constexpr int kSessions = 50;
    constexpr int kChunks = 20;
    Dice dice(1);
    std::map<std::string, std::vector<Planned>> chunks;
    std::map<std::string, Moment> now;
    for (int k = 0; k < kSessions; ++k) {
      v1::OpenRequest open = OpenRemembering(8);
      open.set_max_in_flight(kChunks);
      v1::OpenResponse opened;
      grpc::ClientContext context;
      ASSERT_TRUE(caller.sessions->Open(&context, open, &opened).ok());
      now.emplace(opened.session(), Moment{0, 0, Rows(8, Memory(kRemembered))});
    }
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const auto stream = caller.recurrent->Stream(&context);
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      v1::StreamRequest request;
      for (auto& [session, moment] : now) {
        chunks[session].push_back(PlanChunk(dice, session, moment, 2));
        moment = chunks[session].back().after;
        *request.add_operations() = chunks[session].back().operation;
      }
      ASSERT_TRUE(stream->Write(request));
    }
    ASSERT_TRUE(stream->WritesDone());
    std::map<std::string, size_t> at;
    int replies = 0;
    for (v1::StreamResponse response; stream->Read(&response);) {
      for (const v1::OperationReply& reply : response.replies()) {
        ASSERT_EQ(Mistake(chunks[reply.session()][at[reply.session()]++], reply), "");
        ++replies;
      }
    }
    const grpc::Status status = stream->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(replies, kSessions * kChunks);
  }
}

}  // namespace
}  // namespace rnnserve
