// SPDX-License-Identifier: Apache-2.0
// Recurrent.Infer over a real connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <future>
#include <latch>
#include <thread>

#include "google/rpc/error_details.pb.h"
#include "tests/server/api/raw_call.h"
#include "tests/server/api/running_server.h"

namespace rnnserve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

struct Outcome {
  grpc::Status status;
  v1::InferResponse response;
  std::multimap<grpc::string_ref, grpc::string_ref> trailers;  // point into `context`
  std::unique_ptr<grpc::ClientContext> context = std::make_unique<grpc::ClientContext>();
};

Outcome Infer(RunningServer& server, const v1::InferRequest& request) {
  Outcome outcome;
  outcome.status = server.recurrent->Infer(outcome.context.get(), request, &outcome.response);
  outcome.trailers = outcome.context->GetServerTrailingMetadata();
  return outcome;
}

TEST(Infer, AnswersAnInlineOperator) {
  RunningServer server;
  v1::InferRequest request = RnnRequest({1, -2}, "reference");
  request.set_request_id("first");
  const Outcome outcome = Infer(server, request);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(outcome.response.request_id(), "first");
  EXPECT_EQ(outcome.response.engine(), "reference");
  EXPECT_THAT(outcome.response.fingerprint(), SizeIs(64));
  EXPECT_EQ(outcome.response.largest_batch(), 1);
  ASSERT_EQ(outcome.response.outputs_size(), 2);
  const float first = std::tanh(0.5f);
  const float second = std::tanh(-1.0f + 0.25f * first);
  const v1::Tensor& y = outcome.response.outputs(0);
  EXPECT_EQ(y.name(), "Y");
  EXPECT_THAT(y.shape(), ElementsAre(2, 1, 1, 1));
  EXPECT_THAT(Values(y), ElementsAre(testing::FloatNear(first, 1e-6f), testing::FloatNear(second, 1e-6f)));
  EXPECT_EQ(outcome.response.outputs(1).name(), "Y_h");
  EXPECT_THAT(Values(outcome.response.outputs(1)), ElementsAre(testing::FloatNear(second, 1e-6f)));
}

TEST(Infer, NeedsNoWeightsWhenTheFingerprintIsNamed) {
  RunningServer server;
  const Outcome first = Infer(server, RnnRequest({1, 2}, "fake"));
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  v1::InferRequest request;
  request.set_fingerprint(first.response.fingerprint());
  AddTensor(*request.mutable_inputs(), "X", {2, 1, 1}, {1, 2});
  request.set_engine("fake");
  const Outcome second = Infer(server, request);
  ASSERT_TRUE(second.status.ok()) << second.status.error_message();
  EXPECT_EQ(second.response.outputs(0).raw(), first.response.outputs(0).raw());
  EXPECT_EQ(server.fake.compiled, 1);

  request.set_fingerprint(std::string(64, 'a'));
  const Outcome unknown = Infer(server, request);
  EXPECT_EQ(unknown.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonIn(unknown.status), "FINGERPRINT_EVICTED");
}

TEST(Infer, TakesLargeMessages) {
  RunningServer server;
  std::vector<float> x(500'000, 1.0f);  // 2 MB: handled off the poller
  v1::InferRequest request = RnnRequest(x, "fake");
  request.add_outputs("Y_h");
  const Outcome outcome = Infer(server, request);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_THAT(Values(outcome.response.outputs(0)), ElementsAre(500'000.0f));
}

TEST(Infer, NamesTheFieldOfABadRequest) {
  RunningServer server;
  const auto field = [&](auto change) {
    v1::InferRequest request = RnnRequest({1}, "fake");
    change(request);
    const Outcome outcome = Infer(server, request);
    EXPECT_EQ(outcome.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return FieldIn(outcome.status);
  };
  EXPECT_EQ(field([](auto& request) { request.clear_target(); }), "target");
  EXPECT_EQ(field([](auto& request) { request.set_engine("abacus"); }), "engine");
  EXPECT_EQ(field([](auto& request) { request.set_priority(101); }), "priority");
  EXPECT_EQ(field([](auto& request) { request.set_request_id(std::string(129, 'x')); }), "request_id");
  EXPECT_EQ(field([](auto& request) { request.mutable_inputs(0)->set_raw("abc"); }), "inputs[X]");
  EXPECT_EQ(field([](auto& request) { request.mutable_inputs(1)->clear_name(); }), "inputs[1].name");
  EXPECT_EQ(field([](auto& request) { request.mutable_inputs(0)->set_shape(0, 7); }), "inputs[X].float_data");
  EXPECT_EQ(field([](auto& request) { request.mutable_inputs(0)->set_name("Z"); }), "inputs[Z]");
  EXPECT_EQ(field([](auto& request) { request.add_outputs("Z"); }), "outputs[Z]");
  EXPECT_EQ(
      field([](auto& request) { (*request.mutable_operator_()->mutable_attributes())["clip"].set_f(std::nanf("")); }),
      "operator.attributes[clip]");
}

TEST(Infer, SaysWhatIsUnknownOrNotPossible) {
  RunningServer server;
  v1::InferRequest request = RnnRequest({1}, "fake");
  request.mutable_model()->set_name("nobody");
  const Outcome unknown = Infer(server, request);
  EXPECT_EQ(unknown.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonIn(unknown.status), "MODEL_UNKNOWN");
}

TEST(Infer, RefusesRepliesThatWouldBeTooLargeBeforeComputing) {
  RunningServer server({.core = {.max_reply_bytes = 8}});
  const Outcome outcome = Infer(server, RnnRequest({1, 2, 3}, "fake"));
  EXPECT_EQ(outcome.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(FieldIn(outcome.status), "outputs");
  EXPECT_EQ(ReasonIn(outcome.status), "LIMIT_EXCEEDED");
  const auto info = DetailOf<google::rpc::ErrorInfo>(outcome.status);
  EXPECT_EQ(info->metadata().at("limit"), "8");
  EXPECT_EQ(info->metadata().at("value"), "16");
  EXPECT_THAT(outcome.status.error_message(), HasSubstr("leave Y out"));
  EXPECT_FALSE(DetailOf<google::rpc::RetryInfo>(outcome.status));
  EXPECT_EQ(server.fake.compiled, 0);
}

TEST(Infer, TellsAboutAnEnginesFailure) {
  RunningServer server({.before_slice = [] { return absl::InternalError("the device is gone"); }});
  const Outcome outcome = Infer(server, RnnRequest({1}, "fake"));
  EXPECT_EQ(outcome.status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(outcome.status.error_message(), "the device is gone");
}

TEST(Infer, AnswersBytesThatAreNoMessageAndGoesOn) {
  RunningServer server;
  const std::string method = "/rnnserve.v1.Recurrent/Infer";
  for (const std::string& bytes :
       {std::string("\x0a\x7fhalf"), std::string(100, '\xff'), std::string("\x2a\x05\x0a\x03\xff\xfe\xfd", 7)}) {
    const grpc::Status status = SendBytes(server.channel, method, bytes).status;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_EQ(FieldIn(status), "(none)");
  }
  EXPECT_EQ(FieldIn(SendBytes(server.channel, method, "").status), "target");
  EXPECT_TRUE(Infer(server, RnnRequest({1}, "fake")).status.ok());
}

TEST(Infer, RefusesMessagesOfManyEmptyParts) {
  RunningServer server;
  std::string bytes;
  for (int k = 0; k < 100'000; ++k) bytes.append("\x2a\x00", 2);  // inputs: an empty tensor
  const grpc::Status status = SendBytes(server.channel, "/rnnserve.v1.Recurrent/Infer", bytes).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonIn(status), "LIMIT_EXCEEDED");
}

TEST(Infer, LeavesMessagesAboveTheLimitToGrpc) {
  RunningServer server({.server = {.max_message_bytes = 1000}});
  EXPECT_EQ(Infer(server, RnnRequest(std::vector<float>(1000), "fake")).status.error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(Infer(server, RnnRequest({1}, "fake")).status.ok());
}

TEST(Infer, AStreamWithoutMessagesEndsWell) {
  RunningServer server;
  grpc::ClientContext context;
  const auto stream = server.recurrent->Stream(&context);
  EXPECT_TRUE(stream->WritesDone());
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(Infer, AnswersManyCallsAtOnce) {
  RunningServer server;
  constexpr int kCalls = 64;
  std::atomic<int> right = 0;
  std::vector<std::thread> callers;
  for (int k = 0; k < kCalls; ++k) {
    callers.emplace_back([&, k] {
      for (int round = 0; round < 5; ++round) {
        const float value = static_cast<float>(k + round);
        const Outcome outcome = Infer(server, RnnRequest({value, value}, "fake"));
        if (outcome.status.ok() && Values(outcome.response.outputs(1)) == std::vector<float>{2 * value}) ++right;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(right, 5 * kCalls);
}

// An engine that tells when it has begun, and waits until it may go on.
struct Gate {
  std::latch entered{1}, open{1};
  std::function<absl::Status()> hook = [this] {
    entered.count_down();
    open.wait();
    return absl::OkStatus();
  };
};

TEST(Infer, EndsCancelledWorkBetweenSlices) {
  std::latch entered(1);
  std::atomic<int> slices = 0;
  RunningServer* running = nullptr;
  RunningServer server({.before_slice = [&] {
    if (slices++ == 0) entered.count_down();
    while (!running->cancellation.last()->load()) std::this_thread::yield();
    return absl::OkStatus();
  }});
  running = &server;
  v1::InferRequest request = RnnRequest(std::vector<float>(100'000), "fake");  // many slices
  grpc::ClientContext context;
  v1::InferResponse response;
  std::promise<grpc::Status> done;
  server.recurrent->async()->Infer(&context, &request, &response, [&](grpc::Status status) { done.set_value(status); });
  entered.wait();
  context.TryCancel();
  EXPECT_EQ(done.get_future().get().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(server.server->Drain(absl::InfiniteFuture()));
  EXPECT_EQ(slices, 1);
}

TEST(Infer, EndsWorkWhoseCallerGaveUpWaiting) {
  RunningServer* running = nullptr;
  std::atomic<int> slices = 0;
  RunningServer server({.before_slice = [&] {
    ++slices;
    while (!running->cancellation.last()->load()) std::this_thread::yield();
    return absl::OkStatus();
  }});
  running = &server;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  v1::InferResponse response;
  EXPECT_EQ(server.recurrent->Infer(&context, RnnRequest(std::vector<float>(100'000), "fake"), &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(server.server->Drain(absl::InfiniteFuture()));
  EXPECT_LE(slices, 1);  // none, if the deadline passed on the way
}

TEST(Infer, GivesUpAtTheDeadlineOfTheServer) {
  RunningServer server({.server = {.max_call_duration = absl::ZeroDuration()}});
  const Outcome outcome = Infer(server, RnnRequest({1}, "fake"));
  EXPECT_EQ(outcome.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST(Infer, TellsWhenToComeAgainIfBusy) {
  Gate gate;
  RunningServer server({.before_slice = gate.hook, .server = {.admission = {.max_calls = 1}}});
  std::thread first([&] { EXPECT_TRUE(Infer(server, RnnRequest({1}, "fake")).status.ok()); });
  gate.entered.wait();
  const Outcome outcome = Infer(server, RnnRequest({1}, "reference"));
  EXPECT_EQ(outcome.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(DetailOf<google::rpc::RetryInfo>(outcome.status));
  EXPECT_EQ(outcome.trailers.count("grpc-retry-pushback-ms"), 1u);
  gate.open.count_down();
  first.join();
  EXPECT_TRUE(Infer(server, RnnRequest({1}, "reference")).status.ok());
}

}  // namespace
}  // namespace rnnserve
