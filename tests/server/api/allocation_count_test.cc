// SPDX-License-Identifier: Apache-2.0
// How many allocations of ours a call costs once its session or model is known: from the message's bytes to the
// reply's. gRPC's own are left out; protobuf's count. RNNSERVE_PRINT_ALLOCATIONS=1 prints the stack of each (for
// addr2line -f).
#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string_view>

#include "rnnserve/v1/sessions.grpc.pb.h"
#include "tests/server/api/running_server.h"

namespace {

std::atomic<bool> is_counting = false;
std::atomic<bool> is_printing = false;
std::atomic<int64_t> ours = 0;
// The test's own threads, which are the client's; and this file's while it looks at a stack.
thread_local bool is_left_out = false;

bool Contains(const char* text, std::string_view part) {
  return text != nullptr && std::string_view(text).find(part) != std::string_view::npos;
}

// Decides by the first frame that is no function of the standard library or of Abseil.
bool IsOurs(void* const* frames, int count) {
  for (int k = 0; k < count; ++k) {
    Dl_info info{};
    if (dladdr(frames[k], &info) == 0 || Contains(info.dli_fname, "libstdc++") || Contains(info.dli_fname, "libabsl"))
      continue;
    return !Contains(info.dli_fname, "libgrpc") && !Contains(info.dli_fname, "libgpr");
  }
  return true;
}

void Count() {
  if (!is_counting.load(std::memory_order_relaxed) || is_left_out) return;
  is_left_out = true;
  std::array<void*, 24> frames;
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  constexpr int kOwn = 3;  // Count, Allocate, operator new
  if (IsOurs(frames.data() + kOwn, count - kOwn)) {
    ++ours;
    if (is_printing) {
      backtrace_symbols_fd(frames.data() + kOwn, count - kOwn, 2);
      std::fputs("--\n", stderr);
    }
  }
  is_left_out = false;
}

__attribute__((noinline)) void* Allocate(size_t bytes, size_t alignment) {
  Count();
  void* const memory = std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

__attribute__((noinline)) void* operator new(size_t bytes) { return Allocate(bytes, alignof(std::max_align_t)); }
__attribute__((noinline)) void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes, alignof(std::max_align_t));
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

constexpr int kWarmUp = 1000;
constexpr int kCalls = 200;
constexpr double kMostOfAChunk = 4;
constexpr double kMostOfAPlainChunk = 2.5;
constexpr double kMostOfACall = 12;

class AllocationCountTest : public testing::Test {
 protected:
  AllocationCountTest() { is_left_out = true; }

  // Allocations of ours for one `call`, once windows and recycled memory have filled.
  template <typename Call>
  double OfEach(const Call& call) {
    for (int k = 0; k < kWarmUp; ++k) call();
    ours = 0;
    is_counting = true;
    for (int k = 0; k < kCalls; ++k) call();
    is_counting = false;
    const double each = static_cast<double>(ours.exchange(0)) / kCalls;
    if (std::getenv("RNNSERVE_PRINT_ALLOCATIONS") != nullptr) {
      is_counting = is_printing = true;
      call();
      is_counting = is_printing = false;
    }
    RecordProperty("allocations", std::to_string(each));
    std::printf("%.2f allocations\n", each);
    return each;
  }

  void Load(const char* name) {
    const v1::InferRequest request = RnnRequest({1}, "fake");
    v1::LoadRequest load;
    load.set_name(name);
    load.set_engine("fake");
    *load.mutable_inline_()->mutable_operator_() = request.operator_();
    *load.mutable_inline_()->add_weights() = request.inputs(1);
    *load.mutable_inline_()->add_weights() = request.inputs(2);
    grpc::ClientContext context;
    v1::LoadResponse loaded;
    const grpc::Status status = server_.models->Load(&context, load, &loaded);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  RunningServer server_;
};

// Of a chunk with its data as a typed list, or raw as gateways send it (plain_chunks.h).
class ChunkAllocationCountTest : public AllocationCountTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Carriers, ChunkAllocationCountTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "Raw" : "List"; });

TEST_P(ChunkAllocationCountTest, OfAChunkOfOneStep) {
  Load("m");
  const auto sessions = v1::Sessions::NewStub(server_.channel);
  v1::OpenRequest open;
  open.mutable_model()->set_name("m");
  grpc::ClientContext opening;
  v1::OpenResponse opened;
  ASSERT_TRUE(sessions->Open(&opening, open, &opened).ok());

  grpc::ClientContext context;
  const auto stream = server_.recurrent->Stream(&context);
  uint64_t number = 0;
  const auto step = [&] {
    v1::StreamRequest request;
    v1::Operation& operation = *request.add_operations();
    operation.set_session(opened.session());
    operation.set_number(++number);
    AddTensor(*operation.mutable_chunk()->mutable_inputs(), "X", {1, 1, 1}, {1.0f});
    if (GetParam()) {
      v1::Tensor& x = *operation.mutable_chunk()->mutable_inputs(0);
      x.set_raw(x.float_data().data(), sizeof(float));
      x.clear_float_data();
    }
    ASSERT_TRUE(stream->Write(request));
    v1::StreamResponse response;
    ASSERT_TRUE(stream->Read(&response));
    ASSERT_EQ(response.replies(0).status().code(), 0) << response.DebugString();
  };
  EXPECT_LE(OfEach(step), GetParam() ? kMostOfAPlainChunk : kMostOfAChunk);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(AllocationCountTest, OfACallOfOneStep) {
  Load("m");
  v1::InferRequest request;
  request.mutable_model()->set_name("m");
  AddTensor(*request.mutable_inputs(), "X", {1, 1, 1}, {1.0f});
  const auto call = [&] {
    grpc::ClientContext context;
    v1::InferResponse response;
    ASSERT_TRUE(server_.recurrent->Infer(&context, request, &response).ok());
  };
  EXPECT_LE(OfEach(call), kMostOfACall);
}

}  // namespace
}  // namespace rnnserve
