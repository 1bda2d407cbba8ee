// SPDX-License-Identifier: Apache-2.0
// Every fault of a plugin becomes a status that says what was wrong; nothing of it crashes or leaks.
#include <gmock/gmock.h>

#include <ostream>

#include "engine/plugin/engine_abi.h"
#include "tests/engine/plugin/fake_plugin.h"

namespace rnnserve::plugin {
namespace {

using testing::HasSubstr;

struct Fault {
  const char* name;
  absl::StatusCode code;
  std::vector<std::string> words;  // all in the message
};

std::string FaultName(const testing::TestParamInfo<Fault>& fault) { return fault.param.name; }

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

void ExpectFault(const absl::Status& status, const Fault& fault) {
  EXPECT_EQ(status.code(), fault.code) << status;
  for (const std::string& words : fault.words) EXPECT_THAT(std::string(status.message()), HasSubstr(words));
}

class LoadFaults : public testing::TestWithParam<Fault> {};

TEST_P(LoadFaults, AreToldWithThePath) {
  const int alive = FakeAlive();
  const absl::StatusOr<std::unique_ptr<PluginEngine>> engine = LoadFake(GetParam().name);
  ExpectFault(engine.status(), GetParam());
  EXPECT_THAT(std::string(engine.status().message()), HasSubstr(FAKE_PLUGIN));
  EXPECT_EQ(FakeAlive(), alive);
}

const std::string kSliceBytes = std::to_string(sizeof(rnnserve_slice));
const std::string kLessSliceBytes = std::to_string(sizeof(rnnserve_slice) - 8);

INSTANTIATE_TEST_SUITE_P(
    Table, LoadFaults,
    testing::Values(
        Fault{"version", absl::StatusCode::kFailedPrecondition, {"version 2", "expected 1", "build the plugin"}},
        Fault{"no_table", absl::StatusCode::kFailedPrecondition, {"version 1", "expected here", "build the plugin"}},
        Fault{"slice_size",
              absl::StatusCode::kFailedPrecondition,
              {"rnnserve_slice has " + kLessSliceBytes, "expected " + kSliceBytes, "build the plugin"}},
        Fault{"api_size", absl::StatusCode::kFailedPrecondition, {"rnnserve_api has", "expected"}},
        Fault{"no_advance", absl::StatusCode::kFailedPrecondition, {"function advance is NULL"}},
        Fault{"no_name", absl::StatusCode::kFailedPrecondition, {"name is NULL"}},
        Fault{"odd_name", absl::StatusCode::kFailedPrecondition, {"name is \"Fake \"", "expected"}},
        Fault{"open", absl::StatusCode::kUnavailable, {"engine \"fake\"", "there is no fake device"}},
        Fault{"open_without_text", absl::StatusCode::kUnavailable, {"no reason given"}},
        Fault{"open_makes_nothing", absl::StatusCode::kInternal, {"made nothing"}},
        Fault{"unknown_code", absl::StatusCode::kInternal, {"a new kind of trouble", "code 99"}},
        Fault{"text_without_end", absl::StatusCode::kInternal, {std::string(512, 'x')}},
        Fault{"text_of_bytes", absl::StatusCode::kInternal, {"two lines?[31m ?"}},
        Fault{"sick_at_open", absl::StatusCode::kUnavailable, {"fell off the bus"}},
        Fault{"device_info", absl::StatusCode::kInternal, {"no answer"}},
        Fault{"limit_negative", absl::StatusCode::kInternal, {"limit of -1 bytes"}},
        Fault{"use_above_limit", absl::StatusCode::kInternal, {"1048577 of its limit of 1048576"}},
        Fault{"limit_above_total", absl::StatusCode::kInternal, {"may use 1048577 of 1048576 bytes"}},
        Fault{"total_huge",
              absl::StatusCode::kInternal,
              {"may use 9223372036854775807 of 9223372036854775807", "at most 1125899906842624"}}),
    FaultName);

TEST(LoadTest, TextsOfAPluginEndWithItsBuffer) {
  const std::string message(LoadFake("text_without_end").status().message());
  EXPECT_THAT(message, testing::Not(HasSubstr(std::string(513, 'x'))));
}

TEST(LoadTest, WhatIsNoPlugin) {
  const Fault missing{"", absl::StatusCode::kNotFound, {"no_such_file.so", "No such file"}};
  ExpectFault(PluginEngine::Load("/no_such_file.so", {}).status(), missing);
  const Fault text{"", absl::StatusCode::kNotFound, {NO_LIBRARY, "cannot be loaded"}};
  ExpectFault(PluginEngine::Load(NO_LIBRARY, {}).status(), text);
  const Fault library{
      "", absl::StatusCode::kFailedPrecondition, {NOT_A_PLUGIN, "without the symbol rnnserve_engine_api"}};
  ExpectFault(PluginEngine::Load(NOT_A_PLUGIN, {}).status(), library);
  // A library that is there, but needs what is not: told when it is loaded, not at the first call.
  const Fault unresolved{"",
                         absl::StatusCode::kNotFound,
                         {UNRESOLVED_PLUGIN, "cannot be loaded", "undefined symbol: rnnserve_is_nowhere"}};
  ExpectFault(PluginEngine::Load(UNRESOLVED_PLUGIN, {}).status(), unresolved);
  ExpectFault(PluginEngine::Load("", {}).status(), {"", absl::StatusCode::kInvalidArgument, {"path", "empty"}});
}

class CompileFaults : public testing::TestWithParam<Fault> {};

TEST_P(CompileFaults, AreTold) {
  const int alive = FakeAlive();
  {
    const auto engine = LoadFake(GetParam().name).value();
    ExpectFault(engine->Compile(OneUnit(), {}).status(), GetParam());
  }
  EXPECT_EQ(FakeAlive(), alive);
}

INSTANTIATE_TEST_SUITE_P(
    Table, CompileFaults,
    testing::Values(Fault{"create", absl::StatusCode::kResourceExhausted, {"engine \"fake\"", "full; try later"}},
                    Fault{"create_makes_nothing", absl::StatusCode::kInternal, {"made nothing"}},
                    Fault{"bytes_negative", absl::StatusCode::kInternal, {"takes -1 bytes", "limit of 1048576"}},
                    Fault{"bytes_huge", absl::StatusCode::kInternal, {"takes 9223372036854775807 bytes"}}),
    FaultName);

class AdvanceFaults : public testing::TestWithParam<Fault> {};

TEST_P(AdvanceFaults, AreTold) {
  const int alive = FakeAlive();
  {
    OneCall call(*LoadFake(GetParam().name).value());
    call.Import(0.5f);
    ExpectFault(call.Advance(), GetParam());
  }
  EXPECT_EQ(FakeAlive(), alive);
}

INSTANTIATE_TEST_SUITE_P(
    Table, AdvanceFaults,
    testing::Values(Fault{"state", absl::StatusCode::kResourceExhausted, {"making a state", "no room for a state"}},
                    Fault{"state_makes_nothing", absl::StatusCode::kInternal, {"making a state", "made nothing"}},
                    Fault{"workspace", absl::StatusCode::kResourceExhausted, {"no room for a workspace"}},
                    Fault{"import", absl::StatusCode::kInternal, {"importing a state", "the state got lost"}},
                    Fault{"advance", absl::StatusCode::kInternal, {"computing", "the sum came out odd"}},
                    Fault{"device_lost", absl::StatusCode::kDataLoss, {"a device that has failed"}}),
    FaultName);

TEST(ExportTest, FailuresStayWithTheState) {
  OneCall call(*LoadFake("export").value());
  EXPECT_TRUE(call.Advance().ok());
  EXPECT_TRUE(call.state->failure().ok());
  EXPECT_EQ(call.Export(), -99);
  ExpectFault(call.state->failure(), {"", absl::StatusCode::kInternal, {"exporting", "the state cannot be read"}});
}

TEST(DeviceTest, FailureTakesTheEngineOutOfServiceOnce) {
  std::vector<std::string> told;
  PluginOptions options;
  options.on_failure = [&told](const std::string& reason) { told.push_back(reason); };
  const auto engine = LoadFake("device_lost", options).value();
  OneCall call(*engine);
  EXPECT_TRUE(engine->Supports(OneUnit()->spec(), {}).ok());
  EXPECT_EQ(call.Advance().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(call.Advance().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(told, std::vector<std::string>{"the fake device fell off the bus"});
  const Fault out{"", absl::StatusCode::kUnavailable, {"out of service: the fake device fell off the bus"}};
  ExpectFault(engine->Supports(OneUnit()->spec(), {}), out);
  ExpectFault(engine->Compile(OneUnit(), {}).status(), out);
}

TEST(DeviceTest, AnOrdinaryFailureLeavesTheEngineInService) {
  const auto engine = LoadFake("advance").value();
  EXPECT_FALSE(OneCall(*engine).Advance().ok());
  EXPECT_TRUE(engine->Supports(OneUnit()->spec(), {}).ok());
}

}  // namespace
}  // namespace rnnserve::plugin
