// SPDX-License-Identifier: Apache-2.0
// The layer under the services: completions, callbacks, tasks, the preparation pool, the admission of calls.
#include <gtest/gtest.h>

#include <future>
#include <latch>
#include <list>
#include <memory>
#include <thread>

#include "base/completion.h"
#include "server/admission/call_admission.h"
#include "server/rpc/callback.h"
#include "server/rpc/preparation_pool.h"
#include "server/rpc/stream_call.h"
#include "server/rpc/task.h"

namespace rnnserve {
namespace {

CallTask AwaitCompletion(void*& tag, std::optional<bool>& result) {
  result = co_await Completion([&](void* given) { tag = given; });
}

TEST(Completion, GoesOnWhenTheTagComesBack) {
  for (const bool ok : {true, false}) {
    void* tag = nullptr;
    std::optional<bool> result;
    AwaitCompletion(tag, result);
    EXPECT_FALSE(result);
    static_cast<CompletionTag*>(tag)->Complete(ok);
    EXPECT_EQ(result, ok);
  }
}

using Answers = absl::AnyInvocable<void(absl::AnyInvocable<void(std::unique_ptr<int>)>)>;

CallTask AwaitCallback(Answers start, std::promise<int>& result) {
  Callback<std::unique_ptr<int>> callback(std::move(start));
  result.set_value(*co_await callback);
}

TEST(Callback, MayComeWithinTheCall) {
  std::promise<int> result;
  AwaitCallback([](auto done) { done(std::make_unique<int>(7)); }, result);
  EXPECT_EQ(result.get_future().get(), 7);
}

TEST(Callback, MayComeLater) {
  std::promise<int> result;
  absl::AnyInvocable<void(std::unique_ptr<int>)> kept;
  AwaitCallback([&](auto done) { kept = std::move(done); }, result);
  kept(std::make_unique<int>(8));
  EXPECT_EQ(result.get_future().get(), 8);
}

TEST(Callback, MayComeFromAnotherThreadAtAnyMoment) {
  for (int round = 0; round < 200; ++round) {
    std::promise<int> result;
    std::thread thread;
    AwaitCallback(
        [&](auto done) {
          thread = std::thread([done = std::move(done), round]() mutable { done(std::make_unique<int>(round)); });
        },
        result);
    EXPECT_EQ(result.get_future().get(), round);
    thread.join();
  }
}

Task<int> Double(int value) { co_return 2 * value; }

Task<int> Sum(PreparationPool* pool, int first, int second) {
  Task<int> left = Double(first);
  if (pool != nullptr) co_await pool->Schedule(1);
  Task<int> right = Double(second);
  co_return co_await left + co_await right;
}

CallTask AwaitSum(PreparationPool* pool, std::promise<int>& result, std::promise<std::thread::id>& where) {
  Task<int> sum = Sum(pool, 3, 4);
  const int value = co_await sum;
  where.set_value(std::this_thread::get_id());
  result.set_value(value);
}

TEST(Task, RunsWhereItIsAwaited) {
  std::promise<int> result;
  std::promise<std::thread::id> where;
  AwaitSum(nullptr, result, where);
  EXPECT_EQ(result.get_future().get(), 14);
  EXPECT_EQ(where.get_future().get(), std::this_thread::get_id());
}

TEST(PreparationPool, CarriesTheRestOfTheCoroutine) {
  std::promise<int> result;
  std::promise<std::thread::id> where;
  {
    PreparationPool pool(2);
    AwaitSum(&pool, result, where);
  }
  EXPECT_EQ(result.get_future().get(), 14);
  EXPECT_NE(where.get_future().get(), std::this_thread::get_id());
}

CallTask CountOnPool(PreparationPool& pool, std::latch& all) {
  co_await pool.Schedule(1);
  all.count_down();
}

CallTask Note(PreparationPool& pool, uint64_t caller, std::vector<uint64_t>& order) {
  co_await pool.Schedule(caller);
  order.push_back(caller);  // the pool's only thread
}

CallTask WaitOnPool(PreparationPool& pool, std::latch& open) {
  co_await pool.Schedule(0);
  open.wait();
}

TEST(PreparationPool, CallersTakeTurns) {
  std::latch open(1);
  std::vector<uint64_t> order;
  {
    PreparationPool pool(1);
    WaitOnPool(pool, open);
    for (int k = 0; k < 4; ++k) Note(pool, 1, order);
    for (int k = 0; k < 2; ++k) Note(pool, 2, order);
    Note(pool, 3, order);
    open.count_down();
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{1, 2, 3, 1, 2, 1, 1}));
}

TEST(PreparationPool, RunsWhatIsQueuedBeforeItGoes) {
  std::latch all(100);
  {
    PreparationPool pool(1);
    for (int k = 0; k < 100; ++k) CountOnPool(pool, all);
  }
  EXPECT_TRUE(all.try_wait());
}

CallTask CollectOnPool(PreparationPool& pool, int most, std::vector<std::string>& told) {
  co_await pool.ScheduleToCollect(1, most);
  told.push_back("collects");  // the pool's only thread
}

TEST(PreparationPool, RunsWhatACoroutineHasCollected) {
  std::vector<std::string> told;
  {
    PreparationPool pool(1, [&](bool collects) { told.push_back(collects ? "begin" : "run"); });
    CollectOnPool(pool, /*most=*/1, told);
  }
  EXPECT_EQ(told, (std::vector<std::string>{"begin", "collects", "run"}));
}

CallTask NoteThread(PreparationPool& pool, int most, std::promise<std::thread::id>& where) {
  co_await pool.ScheduleToCollect(1, most);
  where.set_value(std::this_thread::get_id());
}

TEST(PreparationPool, CollectsOnAThreadThatHasNothingToDo) {
  std::latch open(1);
  PreparationPool pool(2);
  const auto stays = [&](int most) {
    std::promise<std::thread::id> where;
    NoteThread(pool, most, where);
    return where.get_future().get() == std::this_thread::get_id();
  };
  EXPECT_TRUE(stays(0));
  WaitOnPool(pool, open);
  EXPECT_TRUE(stays(1));
  EXPECT_FALSE(stays(8));
  WaitOnPool(pool, open);
  EXPECT_TRUE(stays(8));
  open.count_down();
}

TEST(StreamLimits, ManyStreamsHaveSmallOutboxes) {
  const StreamLimits limits = {.max_outbox_bytes = 4 << 20, .total_outbox_bytes = 64 << 20};
  EXPECT_EQ(limits.OutboxBytes(0), 4 << 20);
  EXPECT_EQ(limits.OutboxBytes(16), 4 << 20);
  EXPECT_EQ(limits.OutboxBytes(64), 1 << 20);
  EXPECT_EQ(limits.OutboxBytes(4096), 64 << 10);
}

using Calls = std::list<CallAdmission::InFlight>;

// The call is in `calls` if it is OK.
absl::StatusCode Enter(CallAdmission& admission, Calls& calls, uint64_t caller, int64_t bytes) {
  absl::StatusOr<CallAdmission::InFlight> entered = admission.Enter(caller, bytes);
  if (entered.ok()) calls.push_back(*std::move(entered));
  return entered.status().code();
}

constexpr absl::StatusCode kEntered = absl::StatusCode::kOk;
constexpr absl::StatusCode kRefused = absl::StatusCode::kResourceExhausted;

TEST(CallAdmission, BoundsCalls) {
  CallAdmission admission({.max_calls = 2});
  Calls calls;
  EXPECT_EQ(Enter(admission, calls, 1, 1), kEntered);
  EXPECT_EQ(Enter(admission, calls, 1, 1), kEntered);
  EXPECT_EQ(Enter(admission, calls, 1, 1), kRefused);
  calls.pop_front();
  EXPECT_EQ(Enter(admission, calls, 1, 1), kEntered);
}

TEST(CallAdmission, BoundsBytesButLetsOneLargeMessageIn) {
  CallAdmission admission({.max_bytes = 100});
  Calls calls;
  EXPECT_EQ(Enter(admission, calls, 1, 1000), kEntered);
  EXPECT_EQ(Enter(admission, calls, 1, 1), kRefused);
  calls.clear();
  EXPECT_EQ(Enter(admission, calls, 1, 60), kEntered);
  EXPECT_EQ(Enter(admission, calls, 2, 41), kRefused);
  EXPECT_EQ(Enter(admission, calls, 2, 40), kEntered);
}

TEST(CallAdmission, KeepsAnEighthForOtherCallers) {
  CallAdmission admission({.max_calls = 16});
  Calls calls;
  for (int k = 0; k < 14; ++k) EXPECT_EQ(Enter(admission, calls, 1, 1), kEntered);
  EXPECT_EQ(Enter(admission, calls, 1, 1), kRefused);
  EXPECT_EQ(Enter(admission, calls, 2, 1), kEntered);
  calls.pop_front();
  calls.pop_front();
  EXPECT_EQ(Enter(admission, calls, 1, 1), kEntered);
  EXPECT_EQ(admission.calls(), 14);
}

TEST(CallAdmission, ClosesAndWaitsForThoseInside) {
  CallAdmission admission({});
  Calls calls;
  EXPECT_TRUE(admission.WaitEmpty(absl::InfiniteFuture()));
  ASSERT_EQ(Enter(admission, calls, 1, 5), kEntered);
  admission.Close();
  EXPECT_EQ(Enter(admission, calls, 1, 5), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(admission.WaitEmpty(absl::InfinitePast()));
  std::thread leaves([&] { calls.clear(); });
  EXPECT_TRUE(admission.WaitEmpty(absl::InfiniteFuture()));
  leaves.join();
}

TEST(CallAdmission, CancelWaitEndsTheWait) {
  CallAdmission admission({});
  Calls calls;
  ASSERT_EQ(Enter(admission, calls, 1, 5), kEntered);
  std::thread canceller([&] { admission.CancelWait(); });
  EXPECT_FALSE(admission.WaitEmpty(absl::InfiniteFuture()));
  canceller.join();
}

}  // namespace
}  // namespace rnnserve
