// SPDX-License-Identifier: Apache-2.0
// Streams with messages of many operations, and with more than they may have in flight.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/server/api/streams/mirror.h"
#include "tests/server/api/streams/session_server.h"

namespace rnnserve {
namespace {

// Makes the message as much larger, by a field that nothing reads.
void Pad(v1::Operation& operation, size_t bytes) {
  operation.GetReflection()->MutableUnknownFields(&operation)->AddLengthDelimited(1000, std::string(bytes, 'x'));
}

// One stream, on which each of 50 sessions sends 20 chunks, one of each session in a message. All answers are right and
// in order. `padding`: bytes more of each operation.
void Converse(int port, uint32_t seed, size_t padding = 0) {
  const CallerConnection caller(port);
  constexpr int kSessions = 50;
  constexpr int kChunks = 20;
  Dice dice(seed);
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
      v1::Operation& operation = *request.add_operations();
      operation = chunks[session].back().operation;
      if (padding > 0) Pad(operation, padding);
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

// Reading pauses at the bound, goes on below it, and the stream ends: also where workers end operations while the
// stream waits for room.
TEST(StreamBounds, MoreOperationsThanMayBeInFlight) {
  for (const bool on_poller : {false, true}) {
    SessionServer::Setup setup;
    setup.slices_on_poller = on_poller;
    setup.server.streams.max_in_flight = 4;
    SessionServer server(std::move(setup));
    Converse(server.server->ports()[0], 1);
  }
}

// Messages above a mebibyte are handled on a preparation thread, which collects nothing: workers run the slices.
TEST(StreamBounds, LargeMessageOfManyOperations) {
  SessionServer::Setup setup;
  setup.slices_on_poller = true;
  SessionServer server(std::move(setup));
  Converse(server.server->ports()[0], 1, /*padding=*/40 << 10);
}

// Another thread handles some of the messages beside the poller thread.
TEST(StreamBounds, ManyOperationsOfSeveralStreams) {
  for (const int64_t in_flight : {20, 4096}) {
    SessionServer::Setup setup;
    setup.slices_on_poller = true;
    setup.server.streams.max_in_flight = in_flight;
    setup.server.streams.max_beside = 2;
    SessionServer server(std::move(setup));
    std::vector<std::thread> callers;
    for (uint32_t k = 1; k <= 4; ++k) callers.emplace_back([&server, k] { Converse(server.server->ports()[0], k); });
    for (std::thread& caller : callers) caller.join();
  }
}

}  // namespace
}  // namespace rnnserve
