// SPDX-License-Identifier: Apache-2.0
#include "server/models/program_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/steady_now.h"
#include "server/telemetry/metrics.h"
#include "tests/engine/support/partial_programs.h"

namespace rnnserve {
namespace {

constexpr int64_t kPacked = 1 << 20;  // of every program here; cells are a few bytes

CellPtr MakeCell(float weight) {
  CellSpec spec;
  spec.kind = CellKind::kRnn;
  spec.input_size = 1;
  spec.hidden_size = 1;
  return std::make_shared<Cell>(spec, CellWeights<float>{{weight}, {0}, {0}, {0}, {}});
}

class FakeProgram : public StatelessProgram {
 public:
  explicit FakeProgram(std::atomic<int>* alive) : alive_(alive), packed_(64, 1) { ++*alive_; }
  ~FakeProgram() override {
    packed_.assign(packed_.size(), 0);
    --*alive_;
  }
  absl::Status Advance(std::span<const SequenceSlice>, Workspace&) const override {
    int sum = 0;
    for (const int value : packed_) sum += value;
    return sum == 64 ? absl::OkStatus() : absl::InternalError("the weights were taken away");
  }
  int64_t packed_bytes() const override { return kPacked; }

 private:
  std::atomic<int>* alive_;
  std::vector<int> packed_;
};

class FakeEngine : public Engine {
 public:
  explicit FakeEngine(std::string name = "fake") : name_(std::move(name)) {}
  std::string_view name() const override { return name_; }
  absl::Status Supports(const CellSpec&, const EngineOptions&) const override { return absl::OkStatus(); }
  absl::StatusOr<ProgramPtr> Compile(CellPtr cell, const EngineOptions&) const override {
    ++compiled;
    if (before) {
      if (absl::Status status = before(*cell); !status.ok()) return status;
    }
    return std::make_shared<FakeProgram>(&alive);
  }

  std::function<absl::Status(const Cell&)> before;
  mutable std::atomic<int> compiled = 0;
  mutable std::atomic<int> alive = 0;

 private:
  std::string name_;
};

// A gate at which a thread waits until it is opened, and that tells that one has come.
class CallAdmission {
 public:
  void Pass() {
    std::unique_lock lock(mutex_);
    come_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void AwaitVisitor() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return come_; });
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool come_ = false;
  bool open_ = false;
};

bool Runs(const ProgramPtr& program) {
  const auto workspace = program->NewWorkspace();
  return program->Advance({}, *workspace).ok();
}

TEST(ProgramCache, EqualCellsShareAProgram) {
  const FakeEngine engine;
  ProgramCache cache(10 * kPacked);
  const ProgramPtr first = cache.Get(engine, MakeCell(1), {}).value();
  EXPECT_EQ(cache.Get(engine, MakeCell(1), {}).value(), first);
  EXPECT_NE(cache.Get(engine, MakeCell(2), {}).value(), first);
  EXPECT_EQ(engine.compiled, 2);
}

TEST(ProgramCache, EnginesAndOptionsKeepApart) {
  const FakeEngine one("one"), two("two");
  ProgramCache cache(10 * kPacked);
  const CellPtr cell = MakeCell(1);
  const ProgramPtr plain = cache.Get(one, cell, {}).value();
  EXPECT_NE(cache.Get(two, cell, {}).value(), plain);
  EXPECT_NE(cache.Get(one, cell, {.allow_reduced_precision = true}).value(), plain);
  EXPECT_NE(cache.Get(one, cell, {.deterministic = true}).value(), plain);
  EXPECT_NE(cache.Get(one, cell, {.weights = WeightType::kInt8}).value(), plain);
  EXPECT_NE(cache.Get(one, cell, {.weights = WeightType::kFloat16}).value(),
            cache.Get(one, cell, {.weights = WeightType::kInt8}).value());
  EXPECT_EQ(cache.Get(one, cell, {}).value(), plain);
  EXPECT_EQ(cache.bytes(), 6 * kPacked);
  EXPECT_EQ(cache.bytes_of(*cell), 6 * kPacked);
  EXPECT_EQ(cache.bytes_of(*MakeCell(2)), 0);
}

TEST(ProgramCache, LeastRecentlyUsedGoesFirst) {
  const FakeEngine engine;
  ProgramCache cache(2 * kPacked + kPacked / 2);
  const CellPtr a = MakeCell(1), b = MakeCell(2), c = MakeCell(3);
  for (const CellPtr& cell : {a, b, a, c}) ASSERT_TRUE(cache.Get(engine, cell, {}).ok());
  EXPECT_EQ(cache.bytes_of(*a), kPacked);
  EXPECT_EQ(cache.bytes_of(*b), 0);
  EXPECT_EQ(cache.bytes_of(*c), kPacked);
  EXPECT_EQ(cache.bytes(), 2 * kPacked);
  EXPECT_EQ(engine.alive, 2);
  ASSERT_TRUE(cache.Get(engine, b, {}).ok());
  EXPECT_EQ(engine.compiled, 4);
}

TEST(ProgramCache, IdleProgramsGoBeforeThoseInUse) {
  const FakeEngine engine;
  ProgramCache cache(2 * kPacked + kPacked / 2);
  const CellPtr a = MakeCell(1), b = MakeCell(2), c = MakeCell(3);
  const ProgramPtr running = cache.Get(engine, a, {}).value();
  for (const CellPtr& cell : {b, c}) ASSERT_TRUE(cache.Get(engine, cell, {}).ok());
  EXPECT_EQ(cache.bytes_of(*b), 0);
  EXPECT_EQ(cache.Get(engine, a, {}).value(), running);
  EXPECT_EQ(engine.compiled, 3);
}

TEST(ProgramCache, ADroppedProgramRunsOnAndIsFoundAgain) {
  const FakeEngine engine;
  ProgramCache cache(kPacked + kPacked / 2);
  const CellPtr a = MakeCell(1), b = MakeCell(2);
  ProgramPtr running_a = cache.Get(engine, a, {}).value();
  ProgramPtr running_b = cache.Get(engine, b, {}).value();
  EXPECT_TRUE(Runs(running_a));
  EXPECT_EQ(cache.bytes(), 2 * kPacked) << "both are in memory";
  EXPECT_EQ(cache.Get(engine, a, {}).value(), running_a) << "no second copy while the first one lives";
  EXPECT_EQ(engine.compiled, 2);
  running_a.reset();
  running_b.reset();
  EXPECT_EQ(engine.alive, 1) << "the bound holds one";
  EXPECT_EQ(cache.bytes(), kPacked);
}

TEST(ProgramCache, AProgramAboveTheBoundIsForItsCallerOnly) {
  const FakeEngine engine;
  ProgramCache cache(kPacked / 2);
  ProgramPtr program = cache.Get(engine, MakeCell(1), {}).value();
  EXPECT_TRUE(Runs(program));
  program.reset();
  EXPECT_EQ(engine.alive, 0);
  EXPECT_EQ(cache.bytes(), 0);
}

TEST(ProgramCache, ACellsOwnBytesCount) {
  const FakeEngine engine;
  ProgramCache cache(10 * kPacked);
  CellSpec spec;
  spec.kind = CellKind::kRnn;
  spec.input_size = 1 << 20;
  spec.hidden_size = 1;
  const auto large = [&](float value) {
    return std::make_shared<Cell>(spec, CellWeights<float>{std::vector<float>(1 << 20, value), {0}, {0}, {0}, {}});
  };
  for (const float value : {1.F, 2.F, 3.F}) ASSERT_TRUE(cache.Get(engine, large(value), {}).ok());
  EXPECT_EQ(engine.alive, 1) << "1 MiB packed and 4 MiB of the cell: two do not fit 10 MiB with their own overhead";
}

TEST(ProgramCache, AFailureIsNotRemembered) {
  FakeEngine engine;
  ProgramCache cache(10 * kPacked);
  const CellPtr cell = MakeCell(1);
  engine.before = [](const Cell&) { return absl::ResourceExhaustedError("no memory"); };
  EXPECT_EQ(cache.Get(engine, cell, {}).status(), absl::ResourceExhaustedError("no memory"));
  engine.before = [](const Cell&) -> absl::Status { throw std::runtime_error("primitive failed"); };
  const absl::Status thrown = cache.Get(engine, cell, {}).status();
  EXPECT_EQ(thrown.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(thrown.message()), testing::HasSubstr("primitive failed"));
  EXPECT_EQ(cache.bytes(), 0);
  engine.before = nullptr;
  EXPECT_TRUE(cache.Get(engine, cell, {}).ok());
  EXPECT_EQ(engine.compiled, 3);
}

TEST(ProgramCache, TellsTheTimeToPack) {
  FakeEngine engine("slow");
  constexpr absl::Duration kTook = absl::Milliseconds(3);
  engine.before = [](const Cell&) {
    const absl::Time begun = SteadyNow();
    while (SteadyNow() - begun < kTook) std::this_thread::yield();
    return absl::OkStatus();
  };
  Metrics metrics;
  ProgramCache cache(10 * kPacked, &metrics);
  const absl::Time begun = SteadyNow();
  for (const float weight : {1.0F, 1.0F, 2.0F}) ASSERT_TRUE(cache.Get(engine, MakeCell(weight), {}).ok());
  const absl::Duration all = SteadyNow() - begun;
  engine.before = [](const Cell&) { return absl::UnimplementedError("no such kernel"); };
  ASSERT_FALSE(cache.Get(engine, MakeCell(3), {}).ok());
  const MetricReading packing = metrics.Read("rnnserve_packing_duration_seconds");
  ASSERT_EQ(packing.samples.size(), 1);
  EXPECT_THAT(packing.samples[0].labels, testing::ElementsAre("slow"));
  EXPECT_EQ(std::accumulate(packing.samples[0].counts.begin(), packing.samples[0].counts.end(), 0), 2)
      << "neither the cached one nor the failure";
  EXPECT_GE(packing.samples[0].value, absl::ToDoubleSeconds(2 * kTook));
  EXPECT_LE(packing.samples[0].value, absl::ToDoubleSeconds(all));
}

TEST(ProgramCache, OneCompilesAndTheOthersWait) {
  FakeEngine engine;
  ProgramCache cache(10 * kPacked);
  CallAdmission admission;
  engine.before = [&](const Cell&) {
    admission.Pass();
    return absl::OkStatus();
  };
  std::vector<ProgramPtr> programs(4);
  std::vector<std::thread> threads;
  for (ProgramPtr& program : programs) {
    threads.emplace_back([&] { program = cache.Get(engine, MakeCell(1), {}).value(); });
  }
  admission.AwaitVisitor();
  admission.Open();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(engine.compiled, 1);
  EXPECT_THAT(programs, testing::Each(programs[0]));
}

TEST(ProgramCache, ACompilationHoldsUpNoOtherCell) {
  FakeEngine engine;
  ProgramCache cache(10 * kPacked);
  CallAdmission admission;
  const CellPtr slow = MakeCell(1);
  engine.before = [&](const Cell& cell) {
    if (cell.key() == slow->key()) admission.Pass();
    return absl::OkStatus();
  };
  std::thread thread([&] { ASSERT_TRUE(cache.Get(engine, slow, {}).ok()); });
  admission.AwaitVisitor();
  EXPECT_TRUE(cache.Get(engine, MakeCell(2), {}).ok());
  EXPECT_EQ(cache.bytes(), kPacked);
  admission.Open();
  thread.join();
  EXPECT_EQ(cache.bytes(), 2 * kPacked);
}

TEST(ProgramCache, WaitersShareTheFailure) {
  FakeEngine engine;
  ProgramCache cache(10 * kPacked);
  std::vector<absl::Status> results(4);
  std::vector<std::thread> threads;
  engine.before = [](const Cell&) { return absl::UnimplementedError("no such kernel"); };
  for (absl::Status& result : results) {
    threads.emplace_back([&] { result = cache.Get(engine, MakeCell(1), {}).status(); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(results, testing::Each(absl::UnimplementedError("no such kernel")));
}

TEST(ProgramCache, ManyThreadsUnderEviction) {
  FakeEngine engine;
  std::atomic<int> asked = 0;
  engine.before = [&](const Cell&) {
    return asked++ % 7 == 3 ? absl::ResourceExhaustedError("now and then") : absl::OkStatus();
  };
  ProgramCache cache(2 * kPacked + kPacked / 2);
  std::vector<CellPtr> cells;
  for (int i = 0; i < 5; ++i) cells.push_back(MakeCell(static_cast<float>(i)));
  std::atomic<int> wrong = 0, ran = 0;
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 300; ++i) {
        const auto program = cache.Get(engine, cells[(i * (t + 1) + t) % cells.size()], {});
        if (!program.ok()) continue;
        ++ran;
        if (!Runs(*program)) ++wrong;
        if (cache.bytes() < 0) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(ran, 100);
  EXPECT_LE(engine.alive, 2);
  EXPECT_EQ(cache.bytes(), engine.alive * kPacked);
}

// An engine with room for two programs.
TEST(ProgramCacheTest, AFullEngineGetsTheRoomOfItsIdlePrograms) {
  FakeEngine full("full"), other("other");
  full.before = [&](const Cell&) {
    return full.alive < 2 ? absl::OkStatus() : absl::ResourceExhaustedError("the device is full");
  };
  ProgramCache cache(int64_t{1} << 40);
  ASSERT_TRUE(cache.Get(other, MakeCell(0), {}).ok());
  const CellPtr idle = MakeCell(1);
  ASSERT_TRUE(cache.Get(full, idle, {}).ok());
  const ProgramPtr running = cache.Get(full, MakeCell(2), {}).value();
  const absl::StatusOr<ProgramPtr> third = cache.Get(full, MakeCell(3), {});
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_FALSE(cache.Holds(full, *idle, {}));
  EXPECT_EQ(full.alive, 2);
  EXPECT_EQ(other.alive, 1);

  const int compiled = full.compiled;
  EXPECT_EQ(cache.Get(full, MakeCell(4), {}).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.compiled, compiled + 1) << "nothing could be let go, so it was not tried again";
}

}  // namespace
}  // namespace rnnserve
