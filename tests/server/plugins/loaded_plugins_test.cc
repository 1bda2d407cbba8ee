// SPDX-License-Identifier: Apache-2.0
#include "server/plugins/loaded_plugins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "engine/reference/reference_engine.h"
#include "tests/engine/plugin/fake_plugin.h"

namespace rnnserve {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

class LoadedPluginsTest : public testing::Test {
 protected:
  ~LoadedPluginsTest() override { unsetenv("RNNSERVE_FAKE_PLUGIN"); }

  static void SetFault(const char* fault) { setenv("RNNSERVE_FAKE_PLUGIN", fault, 1); }
  // Runs a cell on the device, which fails for good if that is the fault.
  static void UseDevice(const LoadedPlugins& plugins) {
    plugin::OneCall call(*plugins.engines().front());
    call.Advance().IgnoreError();
  }
  // Values of a family by their labels, joined.
  static std::map<std::string, double> Values(const Metrics& metrics, const std::string& name) {
    std::map<std::string, double> values;
    for (const MetricReading& family : metrics.Collect()) {
      if (family.name != name) continue;
      for (const MetricSample& sample : family.samples) {
        std::string labels;
        for (const std::string& label : sample.labels) labels += (labels.empty() ? "" : ",") + label;
        values[labels] = sample.value;
      }
    }
    return values;
  }

  const std::unique_ptr<Engine> reference_ = MakeReferenceEngine();
  const std::vector<const Engine*> own_ = {reference_.get()};
};

TEST_F(LoadedPluginsTest, WhatCannotServeIsLeftOut) {
  const LoadedPlugins plugins({.paths = {"/no_such_file.so", FAKE_PLUGIN}}, own_);
  ASSERT_EQ(plugins.engines().size(), 1u);
  EXPECT_EQ(plugins.engines()[0]->name(), "fake");
  SetFault("open");
  EXPECT_THAT(LoadedPlugins({.paths = {FAKE_PLUGIN}}, own_).engines(), IsEmpty());
}

TEST_F(LoadedPluginsTest, DevicesWantWorkersOfTheirOwn) {
  EXPECT_EQ(LoadedPlugins({.paths = {}}, own_).workers_wanted(), 0);
  EXPECT_EQ(LoadedPlugins({.paths = {FAKE_PLUGIN}}, own_).workers_wanted(), 1);
  SetFault("workers_negative");
  EXPECT_EQ(LoadedPlugins({.paths = {FAKE_PLUGIN}}, own_).workers_wanted(), 0);
  SetFault("workers_huge");
  EXPECT_EQ(LoadedPlugins({.paths = {FAKE_PLUGIN}}, own_).workers_wanted(), 16);
}

TEST_F(LoadedPluginsTest, ANameServesOnce) {
  const LoadedPlugins twice({.paths = {FAKE_PLUGIN, FAKE_PLUGIN}}, own_);
  EXPECT_EQ(twice.engines().size(), 1u);
  EXPECT_THAT(LoadedPlugins({.paths = {FAKE_PLUGIN}}, twice.engines()).engines(), IsEmpty());
}

TEST_F(LoadedPluginsTest, AFailureIsToldOnceToWhoeverListens) {
  SetFault("device_lost");
  LoadedPlugins plugins({.paths = {FAKE_PLUGIN}}, own_);
  std::vector<std::string> on_failure;
  plugins.OnFailure([&](std::string_view engine) { on_failure.emplace_back(engine); });
  EXPECT_THAT(on_failure, IsEmpty());
  plugin::OneCall call(*plugins.engines().front());
  EXPECT_FALSE(call.Advance().ok());
  EXPECT_FALSE(call.Advance().ok());
  EXPECT_THAT(on_failure, ElementsAre("fake"));
  std::vector<std::string> later;
  plugins.OnFailure([&](std::string_view engine) { later.emplace_back(engine); });
  EXPECT_THAT(later, ElementsAre("fake"));
}

TEST_F(LoadedPluginsTest, NobodyIsToldAfterwards) {
  SetFault("device_lost");
  LoadedPlugins plugins({.paths = {FAKE_PLUGIN}}, own_);
  std::vector<std::string> on_failure;
  plugins.OnFailure([&](std::string_view engine) { on_failure.emplace_back(engine); });
  plugins.OnFailure({});
  UseDevice(plugins);
  EXPECT_THAT(on_failure, IsEmpty());
}

TEST_F(LoadedPluginsTest, MetricsShowMemoryAndService) {
  SetFault("device_lost");
  const LoadedPlugins plugins({.paths = {FAKE_PLUGIN}}, own_);
  Metrics metrics;
  plugins.AddMetrics(metrics);
  AddEngineMetrics({reference_.get(), plugins.engines()[0]}, metrics);
  EXPECT_THAT(Values(metrics, "rnnserve_device_memory_bytes"),
              UnorderedElementsAre(Pair("fake,used", 0), Pair("fake,limit", 1 << 20)));
  EXPECT_THAT(Values(metrics, "rnnserve_engine_in_service"),
              UnorderedElementsAre(Pair("reference", 1), Pair("fake", 1)));
  UseDevice(plugins);
  EXPECT_THAT(Values(metrics, "rnnserve_engine_in_service"),
              UnorderedElementsAre(Pair("reference", 1), Pair("fake", 0)));
}

}  // namespace
}  // namespace rnnserve
