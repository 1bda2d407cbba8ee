// SPDX-License-Identifier: Apache-2.0
// Every answer in company is the answer alone: random operators of every kind and type, ragged rows, neighbours full of
// NaN and infinities, weights inline and by fingerprint, cancels and deadlines among them.
//   RNNSERVE_REQUESTS=100000 batched_answers_test      the long form, about a minute
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "absl/time/clock.h"
#include "tests/server/core/request_pool.h"
#include "tests/server/core/run_infer.h"

namespace rnnserve {
namespace {

constexpr int64_t kInFlight = 384;

// Lets so many be under way.
class Window {
 public:
  void Enter() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return inside_ < kInFlight; });
    ++inside_;
  }
  void Leave() {
    const std::lock_guard lock(mutex_);
    --inside_;
    changed_.notify_all();
  }
  void WaitEmpty() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return inside_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t inside_ = 0;
};

int64_t Requests() {
  const char* const given = std::getenv("RNNSERVE_REQUESTS");
  return given == nullptr ? 6'000 : std::strtoll(given, nullptr, 10);
}

TEST(BatchedAnswers, AreTheAnswersAlone) {
  std::mt19937_64 random(20240511);
  RealCore core;
  const auto requests = MakeRequests(random, *core, 18, 24);
  ASSERT_GT(requests.size(), 400u);

  Window window;
  std::mutex mutex;  // guards what follows
  std::vector<int64_t> batches;
  std::vector<std::string> differences;
  int64_t nonfinite = 0, bit_exact = 0;
  const absl::Time start = absl::Now();
  for (int64_t k = Requests(); k > 0; --k) {
    const PooledRequest& request = *requests[random() % requests.size()];
    window.Enter();
    RunInfer(*core, request.call, [&](absl::StatusOr<InferReply> reply) {
      const std::string difference = reply.ok() ? Difference(request, *reply) : reply.status().ToString();
      {
        const std::lock_guard lock(mutex);
        if (reply.ok()) batches.push_back(reply->largest_batch);
        if (!difference.empty()) differences.push_back(difference);
        nonfinite += request.has_nonfinite ? 1 : 0;
        bit_exact += request.tolerance == 0 ? 1 : 0;
      }
      reply = absl::CancelledError("gives its memory back before the window does");
      window.Leave();
    });
  }
  window.WaitEmpty();
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  EXPECT_TRUE(differences.empty()) << differences.size() << " differ; the first: " << differences.front();
  ASSERT_FALSE(batches.empty());
  std::ranges::nth_element(batches, batches.begin() + static_cast<int64_t>(batches.size() / 2));
  const int64_t median = batches[batches.size() / 2];
  std::printf("%zu answers, %.0f a second, median batch %lld; %lld bit for bit, %lld full of NaN and infinities\n",
              batches.size(), static_cast<double>(batches.size()) / seconds, static_cast<long long>(median),
              static_cast<long long>(bit_exact), static_cast<long long>(nonfinite));
  // How many share a batch depends on which is faster, this thread or the workers: the long form is for a quiet
  // machine.
  EXPECT_GE(median, std::getenv("RNNSERVE_REQUESTS") == nullptr ? 2 : 8);
}

TEST(BatchedAnswers, OneBitIsNoticed) {
  std::mt19937_64 random(1);
  RealCore core;
  for (const auto& request : MakeRequests(random, *core, 6, 4)) {
    InferReply reply;
    reply.outputs = request->alone.outputs;
    EXPECT_EQ(Difference(*request, reply), "");
    if (request->tolerance > 0 || request->has_nonfinite) continue;
    for (OutputTensor& output : reply.outputs) {
      if (output.bytes.empty()) continue;
      output.bytes.end()[-1] ^= 1;
      EXPECT_NE(Difference(*request, reply), "");
    }
  }
}

// A message that goes as soon as its call is over, whatever ended it.
struct Message {
  explicit Message(const PooledRequest& request, std::atomic<int64_t>& alive) : inputs(request.inputs), alive_(alive) {
    call = request.call;
    for (NamedTensor& view : call.inputs) view = FindTensor(inputs, view.name)->View();
    ++alive_;
  }
  ~Message() { --alive_; }
  std::vector<OwnedTensor> inputs;
  InferCall call;

 private:
  std::atomic<int64_t>& alive_;
};

// Under AddressSanitizer this is about memory: nothing may touch a message after its call is over.
TEST(BatchedAnswers, GivenUpCallsLeaveNothingBehind) {
  std::mt19937_64 random(7);
  RealCore core;
  const auto requests = MakeRequests(random, *core, 8, 8);
  std::atomic<int64_t> alive = 0;
  std::atomic<int64_t> wrong = 0, answered = 0, cancelled = 0, expired = 0;
  {
    Window window;
    for (int64_t k = Requests() / 2; k > 0; --k) {
      const PooledRequest& request = *requests[random() % requests.size()];
      auto message = std::make_shared<Message>(request, alive);
      const auto flag = std::make_shared<std::atomic<bool>>(random() % 16 == 0);  // before
      message->call.cancelled = flag;
      if (random() % 4 == 0) message->call.deadline = absl::Now() + absl::Microseconds(random() % 3'000);
      window.Enter();
      RunInfer(*core, message->call, [&, message](absl::StatusOr<InferReply> reply) mutable {
        if (reply.ok()) {
          ++answered;
          if (!Difference(request, *reply).empty()) ++wrong;
        } else if (absl::IsCancelled(reply.status())) {
          ++cancelled;
        } else if (absl::IsDeadlineExceeded(reply.status())) {
          ++expired;
        } else {
          ++wrong;
        }
        reply = absl::CancelledError("gives its memory back before the window does");
        message.reset();
        window.Leave();
      });
      message.reset();
      if (random() % 4 == 0) flag->store(true);  // while it waits, runs, or later
    }
    window.WaitEmpty();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(core->bytes_in_flight(), 0);
  EXPECT_GT(answered, 0);
  EXPECT_GT(cancelled, 0);
  EXPECT_GT(expired, 0);
  std::printf("%lld answered, %lld cancelled, %lld expired\n", static_cast<long long>(answered),
              static_cast<long long>(cancelled), static_cast<long long>(expired));
  for (const auto& request : requests) {
    const absl::StatusOr<InferReply> reply = InferAlone(*core, request->call);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(Difference(*request, *reply), "");
  }
}

}  // namespace
}  // namespace rnnserve
