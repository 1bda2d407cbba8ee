// SPDX-License-Identifier: Apache-2.0
// A plugin whose device fails for good: the call that noticed can be sent again, the CPU takes over what leaves the
// choice to the server, and calls that name the engine see on_failure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "engine/cpu/cpu_engine.h"
#include "server/batching/cellular_scheduler.h"
#include "server/core/core.h"
#include "tests/engine/plugin/fake_plugin.h"
#include "tests/server/core/run_infer.h"

namespace rnnserve {
namespace {

using testing::HasSubstr;

class CountingScheduler final : public Scheduler {
 public:
  absl::Status Schedule(Submission&& submission) override {
    ++submitted;
    return scheduler_.Schedule(std::move(submission));
  }
  QueueLoad load() const override { return scheduler_.load(); }
  std::atomic<int> submitted = 0;

 private:
  CellularScheduler scheduler_{{.workers = 2}};
};

class DeviceFailureTest : public testing::Test {
 protected:
  // RNN-14 with I = H = 1 over two steps.
  absl::StatusOr<InferReply> Infer(const std::string& engine) {
    InferCall call;
    OperatorDef op;
    op.op_type = "RNN";
    op.version = 14;
    op.attributes["hidden_size"] = int64_t{1};
    call.target = op;
    const auto tensor = [](const char* name, Shape shape, const std::vector<float>& values) {
      return NamedTensor{name, {DataType::kFloat, std::move(shape), std::as_bytes(std::span(values))}};
    };
    const std::vector<float> weight = {0.5}, x = {1, -2};
    call.inputs = {tensor("W", {1, 1, 1}, weight), tensor("R", {1, 1, 1}, weight), tensor("X", {2, 1, 1}, x)};
    call.engine = engine;
    std::promise<absl::StatusOr<InferReply>> promise;
    std::future<absl::StatusOr<InferReply>> reply = promise.get_future();
    RunInfer(core_, call, [&](absl::StatusOr<InferReply> result) { promise.set_value(std::move(result)); });
    return reply.get();
  }

  explicit DeviceFailureTest(const char* fault = "device_lost") : failing_(plugin::LoadFake(fault).value()) {}

  const std::unique_ptr<plugin::PluginEngine> failing_;
  const std::unique_ptr<Engine> cpu_ = MakeCpuEngine();
  ModelStore store_{{}};
  ProgramCache programs_{1 << 20};
  CountingScheduler scheduler_;
  Core core_{{}, {failing_.get(), cpu_.get()}, &store_, &programs_, &scheduler_};
};

TEST_F(DeviceFailureTest, TheCpuTakesOver) {
  const absl::Status lost = Infer("fake").status();
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("a device that has failed"));
  EXPECT_THAT(std::string(lost.message()), HasSubstr("nothing of this call is lost, send it again"));
  EXPECT_EQ(failing_->InService().code(), absl::StatusCode::kUnavailable);

  for (const char* engine : {"", "auto", "auto"}) {
    const absl::StatusOr<InferReply> reply = Infer(engine);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->engine, "cpu");
  }
  const absl::Status insisting = Infer("fake").status();
  EXPECT_EQ(insisting.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(insisting.message()), HasSubstr("out of service: the fake device fell off the bus"));
}

class FullDeviceTest : public DeviceFailureTest {
 protected:
  FullDeviceTest() : DeviceFailureTest("state") {}
};

// In a batch it would take the calls of others along.
TEST_F(FullDeviceTest, ACallWithoutRoomForItsStateReachesNoBatch) {
  const absl::Status refused = Infer("fake").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("making a state: no room for a state"));
  EXPECT_EQ(scheduler_.submitted, 0);
  EXPECT_TRUE(failing_->InService().ok());
  EXPECT_TRUE(Infer("cpu").ok());
  EXPECT_EQ(scheduler_.submitted, 1);
}

}  // namespace
}  // namespace rnnserve
