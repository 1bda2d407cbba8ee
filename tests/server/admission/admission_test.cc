// SPDX-License-Identifier: Apache-2.0
// A caller that floods the server fills its bounds for itself only: the others are admitted and answered.
#include <gtest/gtest.h>

#include <condition_variable>
#include <latch>
#include <list>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/server/api/running_server.h"

namespace rnnserve {
namespace {

constexpr int kCalls = 40;
constexpr int kLetIn = 16;  // by the bound, about

// A caller with a connection of its own and any number of calls on their way.
class Caller {
 public:
  explicit Caller(RunningServer& server) {
    grpc::ChannelArguments own;
    own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = v1::Recurrent::NewStub(grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server.server->ports()[0]),
                                                             grpc::InsecureChannelCredentials(), own));
  }
  ~Caller() { WaitFor(calls_.size()); }

  void Send(const v1::InferRequest& request) {
    Call& call = calls_.emplace_back();
    stub_->async()->Infer(&call.context, &request, &call.response, [this](const grpc::Status& status) {
      std::lock_guard lock(mutex_);
      ++(status.ok() ? good_ : status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ? refused_ : failed_);
      changed_.notify_all();
    });
  }

  v1::Recurrent::Stub& stub() { return *stub_; }
  void WaitFor(size_t answers) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return static_cast<size_t>(good_ + refused_ + failed_) >= answers; });
  }
  int good() { return Read(good_); }
  int refused() { return Read(refused_); }
  int answered() { return good() + refused() + Read(failed_); }

 private:
  struct Call {
    grpc::ClientContext context;
    v1::InferResponse response;
  };

  int Read(const int& count) {
    std::lock_guard lock(mutex_);
    return count;
  }

  std::unique_ptr<v1::Recurrent::Stub> stub_;
  std::list<Call> calls_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int good_ = 0, refused_ = 0, failed_ = 0;  // guarded by mutex_
};

struct Bound {
  const char* name;
  void (*set)(RunningServer::Setup&);
};

class AdmissionTest : public testing::TestWithParam<Bound> {};

TEST_P(AdmissionTest, WhoFloodsTheServerKeepsNobodyElseOut) {
  std::latch open(1);
  RunningServer::Setup setup;
  setup.before_slice = [&] {
    open.wait();
    return absl::OkStatus();
  };
  GetParam().set(setup);
  RunningServer server(setup);
  const v1::InferRequest request = RnnRequest({1}, "fake");
  {
    Caller flood(server), other(server);
    for (int k = 0; k < kCalls; ++k) flood.Send(request);
    const auto came = [&] { return server.workers.load().sequences + flood.answered() + other.answered(); };
    while (came() < kCalls) std::this_thread::yield();
    EXPECT_GT(flood.refused(), 0);
    const int64_t let_in = server.workers.load().sequences;
    EXPECT_GE(let_in, kLetIn / 2);

    other.Send(request);
    while (came() < kCalls + 1) std::this_thread::yield();
    EXPECT_EQ(other.refused(), 0);
    open.count_down();
    other.WaitFor(1);
    EXPECT_EQ(other.good(), 1);
    flood.WaitFor(kCalls);
    EXPECT_EQ(flood.good(), let_in);
  }
}

using Stream = grpc::ClientReaderWriter<v1::StreamRequest, v1::StreamResponse>;

// Whether the server answers on it.
bool IsOpen(Stream& stream) {
  v1::StreamRequest request;
  request.add_operations()->set_session("nobody's");
  v1::StreamResponse response;
  stream.Write(request);
  return stream.Read(&response);
}

TEST(Admission, WhoOpensAllStreamsKeepsNobodyElseOut) {
  RunningServer::Setup setup;
  setup.server.streams.max_streams = kLetIn;
  RunningServer server(setup);
  std::list<grpc::ClientContext> contexts;  // of both
  Caller flood(server), other(server);
  std::vector<std::unique_ptr<Stream>> streams;
  int open = 0;
  for (int k = 0; k < kLetIn; ++k) {
    streams.push_back(flood.stub().Stream(&contexts.emplace_back()));
    open += IsOpen(*streams.back()) ? 1 : 0;
  }
  EXPECT_EQ(open, kLetIn * 7 / 8);
  streams.push_back(other.stub().Stream(&contexts.emplace_back()));
  EXPECT_TRUE(IsOpen(*streams.back()));
  for (const auto& stream : streams) {
    stream->WritesDone();
    stream->Finish();
  }
}

INSTANTIATE_TEST_SUITE_P(Server, AdmissionTest,
                         testing::Values(Bound{"Calls", [](auto& setup) { setup.server.admission.max_calls = kLetIn; }},
                                         Bound{"RequestBytes",
                                               [](auto& setup) {
                                                 const auto bytes =
                                                     static_cast<int64_t>(RnnRequest({1}, "fake").ByteSizeLong());
                                                 setup.server.admission.max_bytes = kLetIn * bytes;
                                               }},
                                         Bound{"OutputBytes",
                                               [](auto& setup) { setup.core.max_bytes_in_flight = kLetIn * 600; }},
                                         Bound{"Sequences", [](auto& setup) { setup.max_queued_sequences = kLetIn; }}),
                         [](const auto& bound) { return std::string(bound.param.name); });

}  // namespace
}  // namespace rnnserve
