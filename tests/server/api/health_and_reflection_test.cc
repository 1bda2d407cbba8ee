// SPDX-License-Identifier: Apache-2.0
// What the services that every gRPC server has say about this one. Messages are written as bytes:
// HealthCheckRequest.service is field 1, HealthCheckResponse.status field 1 (SERVING 1, NOT_SERVING 2);
// ServerReflectionRequest.list_services is field 7, file_containing_symbol field 4.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/api/raw_call.h"
#include "tests/server/api/running_server.h"

namespace rnnserve {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";
constexpr char kReflection[] = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
constexpr char kOlderReflection[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
const std::string kServing = "\x08\x01";
const std::string kNotServing = "\x08\x02";
const std::string kServiceUnknown = "\x08\x03";

std::string StringField(int number, const std::string& text) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(text.size()) + text;
}

v1::LoadRequest LoadAs(const std::string& name) {
  const v1::InferRequest rnn = RnnRequest({1}, "");
  v1::LoadRequest load;
  load.set_name(name);
  *load.mutable_inline_()->mutable_operator_() = rnn.operator_();
  *load.mutable_inline_()->add_weights() = rnn.inputs(1);
  *load.mutable_inline_()->add_weights() = rnn.inputs(2);
  return load;
}

TEST(Health, ServesAfterStart) {
  RunningServer server;
  for (const char* service : {"", "rnnserve.v1.Recurrent", "rnnserve.v1.Models"}) {
    const RawReply reply = SendBytes(server.channel, kCheck, StringField(1, service));
    EXPECT_TRUE(reply.status.ok()) << service << ": " << reply.status.error_message();
    EXPECT_EQ(reply.bytes, kServing) << service;
  }
  EXPECT_EQ(SendBytes(server.channel, kCheck, StringField(1, "nobody")).status.error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST(Health, FollowsModels) {
  RunningServer server;
  EXPECT_EQ(SendBytes(server.channel, kCheck, StringField(1, "tiny")).status.error_code(), grpc::StatusCode::NOT_FOUND);
  grpc::ClientContext load_context, unload_context;
  v1::LoadResponse loaded;
  ASSERT_TRUE(server.models->Load(&load_context, LoadAs("tiny"), &loaded).ok());
  EXPECT_EQ(SendBytes(server.channel, kCheck, StringField(1, "tiny")).bytes, kServing);
  v1::UnloadRequest unload;
  unload.mutable_model()->set_name("tiny");
  v1::UnloadResponse unloaded;
  ASSERT_TRUE(server.models->Unload(&unload_context, unload, &unloaded).ok());
  EXPECT_EQ(SendBytes(server.channel, kCheck, StringField(1, "tiny")).bytes, kNotServing);
}

TEST(Health, TellsWatchersWhenTheServerLeaves) {
  RunningServer server;
  RawWatch watch(server.channel, kWatch, StringField(1, "rnnserve.v1.Recurrent"));
  EXPECT_EQ(watch.Next(), kServing);
  EXPECT_TRUE(server.server->Drain(absl::InfiniteFuture()));
  EXPECT_EQ(watch.Next(), kNotServing);

  grpc::ClientContext context;
  v1::InferResponse response;
  const grpc::Status late = server.recurrent->Infer(&context, RnnRequest({1}, "fake"), &response);
  EXPECT_EQ(late.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(DetailOf<google::rpc::RetryInfo>(late));
}

TEST(Health, TellsWatchersOfEngines) {
  RunningServer server;
  RawWatch watch(server.channel, kWatch, StringField(1, "engine/fake"));
  EXPECT_EQ(watch.Next(), kServing);
  server.server->SetEngineServing("fake", false);
  EXPECT_EQ(watch.Next(), kNotServing);
  server.server->SetEngineServing("fake", true);
  EXPECT_EQ(watch.Next(), kServing);
  EXPECT_EQ(SendBytes(server.channel, kCheck, "").bytes, kServing);
}

TEST(Health, WatchersWaitForWhatIsNotThereYet) {
  RunningServer server;
  RawWatch watch(server.channel, kWatch, StringField(1, "tiny"));
  EXPECT_EQ(watch.Next(), kServiceUnknown);
  grpc::ClientContext context;
  v1::LoadResponse loaded;
  ASSERT_TRUE(server.models->Load(&context, LoadAs("tiny"), &loaded).ok());
  EXPECT_EQ(watch.Next(), kServing);
}

TEST(Health, WatchersAreBounded) {
  RunningServer::Setup setup;
  setup.server.max_health_watches = 2;
  RunningServer server(setup);
  const RawReply end_of_third = [&] {
    RawWatch first(server.channel, kWatch, "");
    RawWatch second(server.channel, kWatch, "");
    EXPECT_EQ(first.Next(), kServing);
    EXPECT_EQ(second.Next(), kServing);
    return SendBytes(server.channel, kWatch, "");
  }();
  EXPECT_EQ(end_of_third.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(end_of_third.status.error_message(), HasSubstr("2 watchers"));
  // The places of those that have gone are free again, as soon as the server has heard of it.
  std::optional<std::string> next;
  while (!next) next = RawWatch(server.channel, kWatch, "").Next();
  EXPECT_EQ(next, kServing);
}

TEST(Health, RefusesWhatIsNoRequest) {
  RunningServer server;
  for (const char* method : {kCheck, kWatch}) {
    EXPECT_EQ(SendBytes(server.channel, method,
                        "\x0a\x05"
                        "ab")
                  .status.error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
    const std::string long_name(5000, 'a');
    EXPECT_EQ(SendBytes(server.channel, method, "\x0a\x88\x27" + long_name).status.error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_EQ(SendBytes(server.channel, kCheck, "").bytes, kServing);
}

TEST(Reflection, ListsWhatIsServed) {
  RunningServer server;
  for (const char* method : {kReflection, kOlderReflection}) {
    const RawReply reply = SendBytes(server.channel, method, StringField(7, ""));
    ASSERT_TRUE(reply.status.ok()) << method << ": " << reply.status.error_message();
    EXPECT_THAT(reply.bytes, HasSubstr("rnnserve.v1.Recurrent"));
    EXPECT_THAT(reply.bytes, HasSubstr("rnnserve.v1.Models"));
    EXPECT_THAT(reply.bytes, HasSubstr("grpc.health.v1.Health"));
    EXPECT_THAT(reply.bytes, HasSubstr("rnnserve.v1.Sessions"));
  }
}

TEST(Reflection, DescribesHealthAndRefusesWhatIsNoRequest) {
  RunningServer server;
  RawWatch stream(server.channel, kReflection, StringField(4, "grpc.health.v1.Health"));
  EXPECT_THAT(stream.Next().value_or(""), HasSubstr("HealthCheckRequest"));
  EXPECT_EQ(SendBytes(server.channel, kReflection, "\x3a\x05").status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(SendBytes(server.channel, kReflection, "\x3a\x88\x27" + std::string(5000, 'a')).status.error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
}

TEST(Reflection, DescribesMessages) {
  RunningServer server;
  const RawReply reply = SendBytes(server.channel, kReflection, StringField(4, "rnnserve.v1.Recurrent"));
  ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
  EXPECT_THAT(reply.bytes, HasSubstr("InferRequest"));
}

}  // namespace
}  // namespace rnnserve
