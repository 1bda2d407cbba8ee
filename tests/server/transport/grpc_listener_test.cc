// SPDX-License-Identifier: Apache-2.0
// The server on gRPC's own listener: calls are answered, addresses that are taken are told, and leaving ends calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/server/api/running_server.h"

namespace rnnserve {
namespace {

TEST(GrpcListenerTest, AnswersOnAFreePortAndLeaves) {
  RunningServer running({.own_listener = false});
  ASSERT_THAT(running.server->ports(), testing::ElementsAre(testing::Gt(0)));
  grpc::ClientContext context;
  v1::InferResponse response;
  const grpc::Status status = running.recurrent->Infer(&context, RnnRequest({1, 2}, "reference"), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_GT(response.outputs_size(), 0);
  EXPECT_TRUE(running.server->Drain(SteadyNow() + absl::Seconds(5)));
}

TEST(GrpcListenerTest, AnAddressThatIsTakenEndsTheStart) {
  RunningServer running({.own_listener = false});
  GrpcServer::Options taken;
  taken.listen = {absl::StrCat("127.0.0.1:", running.server->ports()[0])};
  EXPECT_FALSE(GrpcServer::Start(taken, &running.core, &running.session_core).ok());
}

TEST(GrpcListenerTest, AUnixSocketHasPort0) {
  RunningServer running({.own_listener = false});
  GrpcServer::Options options;
  options.listen = {absl::StrCat("unix:", testing::TempDir(), "/grpc_listener_test.socket"), "127.0.0.1:0"};
  auto server = GrpcServer::Start(options, &running.core, &running.session_core);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_THAT((*server)->ports(), testing::ElementsAre(0, testing::Gt(0)));
}

}  // namespace
}  // namespace rnnserve
