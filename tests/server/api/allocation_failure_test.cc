// SPDX-License-Identifier: Apache-2.0
// Each large allocation on the way of a call fails once: whichever it is, the call is answered with RESOURCE_EXHAUSTED
// and the server serves the next one.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>

#include "rnnserve/v1/sessions.grpc.pb.h"
#include "tests/server/api/running_server.h"

namespace {

constexpr size_t kLargeBytes = 32 << 10;
// The large allocation that fails, counted from now; 0: none.
std::atomic<int> fails_next = 0;
// On the test's own threads nothing fails.
thread_local bool is_spared = false;

void* Allocate(size_t bytes, size_t alignment) {
  if (bytes >= kLargeBytes && !is_spared && fails_next > 0 && --fails_next == 0) throw std::bad_alloc();
  void* const memory = std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Not inlined: the compiler would see new paired with free. All that a sanitizer has of its own but for arrays, which
// come and go by its own.
__attribute__((noinline)) void* operator new(size_t bytes) { return Allocate(bytes, alignof(std::max_align_t)); }
__attribute__((noinline)) void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return std::malloc(bytes);
}
__attribute__((noinline)) void* operator new(size_t bytes, std::align_val_t alignment) {
  return Allocate(bytes, static_cast<size_t>(alignment));
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace rnnserve {
namespace {

constexpr int kSteps = 20'000;

class AllocationFailureTest : public testing::Test {
 protected:
  AllocationFailureTest() { is_spared = true; }

  // Makes the first large allocation of `call` fail, then the second one, and so on; how many there were.
  int FailEach(const std::function<grpc::StatusCode()>& call) {
    for (int k = 1;; ++k) {
      fails_next = k;
      const grpc::StatusCode code = call();
      const bool has_failed = fails_next.exchange(0) <= 0;
      EXPECT_EQ(code, has_failed ? grpc::StatusCode::RESOURCE_EXHAUSTED : grpc::StatusCode::OK) << "allocation " << k;
      if (!has_failed || HasFailure()) return k - 1;
    }
  }

  grpc::StatusCode Infer(const v1::InferRequest& request) {
    grpc::ClientContext context;
    v1::InferResponse response;
    return server_.recurrent->Infer(&context, request, &response).error_code();
  }

  v1::Operation Chunk(const std::string& session) {
    v1::Operation operation;
    operation.set_session(session);
    AddTensor(*operation.mutable_chunk()->mutable_inputs(), "X", {kSteps, 1, 1}, std::vector<float>(kSteps, 1.0f));
    return operation;
  }

  std::string Open() {
    const v1::InferRequest request = RnnRequest({1}, "reference");
    v1::OpenRequest open;
    *open.mutable_operator_() = request.operator_();
    *open.add_weights() = request.inputs(1);
    *open.add_weights() = request.inputs(2);
    open.set_engine("reference");
    grpc::ClientContext context;
    v1::OpenResponse opened;
    EXPECT_TRUE(sessions_->Open(&context, open, &opened).ok());
    return opened.session();
  }

  RunningServer server_;
  std::unique_ptr<v1::Sessions::Stub> sessions_ = v1::Sessions::NewStub(server_.channel);
};

TEST_F(AllocationFailureTest, OfAnInferCallIsItsAnswer) {
  for (const char* engine : {"reference", "fake"}) {
    const v1::InferRequest request = RnnRequest(std::vector<float>(kSteps, 1.0f), engine);
    ASSERT_EQ(Infer(request), grpc::StatusCode::OK);
    EXPECT_GE(FailEach([&] { return Infer(request); }), 3) << engine;
  }
  server_.server.reset();  // once all calls are over
  EXPECT_EQ(server_.core.bytes_in_flight(), 0);
  EXPECT_EQ(server_.workers.load().sequences, 0);
}

TEST_F(AllocationFailureTest, OfAChunkLeavesTheSessionUsable) {
  const std::string session = Open();
  v1::ApplyRequest request;
  *request.mutable_operation() = Chunk(session);
  const auto apply = [&] {
    grpc::ClientContext context;
    v1::ApplyResponse response;
    const grpc::Status status = sessions_->Apply(&context, request, &response);
    return status.ok() ? static_cast<grpc::StatusCode>(response.reply().status().code()) : status.error_code();
  };
  ASSERT_EQ(apply(), grpc::StatusCode::OK);
  EXPECT_GE(FailEach(apply), 3);
}

TEST_F(AllocationFailureTest, OfAStreamedChunkIsAnsweredOrEndsTheStream) {
  const std::string session = Open();
  v1::StreamRequest request;
  *request.add_operations() = Chunk(session);
  const auto stream_once = [&] {
    grpc::ClientContext context;
    const auto stream = server_.recurrent->Stream(&context);
    v1::StreamResponse response;
    auto code = grpc::StatusCode::OK;
    stream->Write(request);
    if (stream->Read(&response)) code = static_cast<grpc::StatusCode>(response.replies(0).status().code());
    stream->WritesDone();
    const grpc::Status status = stream->Finish();
    return status.ok() ? code : status.error_code();
  };
  ASSERT_EQ(stream_once(), grpc::StatusCode::OK);
  EXPECT_GE(FailEach(stream_once), 3);
}

}  // namespace
}  // namespace rnnserve
