// SPDX-License-Identifier: Apache-2.0
// A good plugin through the loader.
#include <gmock/gmock.h>

#include <thread>

#include "tests/engine/plugin/fake_plugin.h"

namespace rnnserve::plugin {
namespace {

TEST(PluginEngineTest, RunsACell) {
  const auto engine = LoadFake("").value();
  EXPECT_EQ(engine->name(), "fake");
  EXPECT_EQ(engine->description(), "Fake device, driver 1.2, may use 1 of 1 MiB");
  OneCall call(*engine);
  EXPECT_EQ(call.program->packed_bytes(), 12);
  call.Import(0.5f);
  ASSERT_TRUE(call.Advance().ok());
  EXPECT_FLOAT_EQ(call.y[0], std::tanh(0.25f + 0.25f));
  EXPECT_FLOAT_EQ(call.y[1], std::tanh(-1 + call.y[0] / 2));
  EXPECT_EQ(call.Export(), call.y[1]);
}

TEST(PluginEngineTest, ReasonsAreThePluginsOwn) {
  const auto engine = LoadFake("").value();
  CellSpec spec = OneUnit()->spec();
  spec.data_type = DataType::kFloat16;
  EXPECT_EQ(engine->Supports(spec, {}), absl::UnimplementedError("only float32 and float64 are supported"));
}

// The ABI has no word for anything else.
TEST(PluginEngineTest, KeepsWeightsAsGiven) {
  const auto engine = LoadFake("").value();
  const EngineOptions options = {.allow_reduced_precision = true, .weights = WeightType::kFloat16};
  const absl::Status refused = engine->Supports(OneUnit()->spec(), options);
  EXPECT_EQ(refused, absl::UnimplementedError("weight_type is FLOAT16, and it keeps weights as given only"));
  EXPECT_EQ(engine->Compile(OneUnit(), options).status(), refused);
}

TEST(PluginEngineTest, WhatIsUsedOutlivesWhatItCameFrom) {
  const int alive = FakeAlive();
  {
    OneCall call(*LoadFake("").value());  // the engine is gone
    call.Import(0);
    ASSERT_TRUE(call.Advance().ok());
    call.workspace.reset();
    call.program.reset();
    EXPECT_EQ(FakeAlive(), alive + 3);  // engine and program live through the state
  }
  EXPECT_EQ(FakeAlive(), alive);
}

TEST(PluginEngineTest, ASlowCallHoldsNobodyElseUp) {
  const auto engine = LoadFake("slow").value();
  OneCall slow(*engine);
  absl::Status outcome;
  std::thread caller([&] { outcome = slow.Advance(); });
  FakeFunction<void()>("fake_plugin_await_slow")();
  // Any lock held across the call would end here.
  EXPECT_TRUE(engine->Supports(OneUnit()->spec(), {}).ok());
  OneCall other(*engine);
  other.Import(0.75f);
  EXPECT_EQ(other.Export(), 0.75f);
  FakeFunction<void()>("fake_plugin_release")();
  caller.join();
  EXPECT_TRUE(outcome.ok()) << outcome;
}

}  // namespace
}  // namespace rnnserve::plugin
