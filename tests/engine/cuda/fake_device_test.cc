// SPDX-License-Identifier: Apache-2.0
// The whole plugin on the fake device: why it cannot open, its memory, a device that fails for good, and which of the
// libraries' ways it takes.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "engine/plugin/plugin_engine.h"
#include "engine/reference/reference_engine.h"
#include "tests/engine/cpu/random_sequences.h"

namespace rnnserve {
namespace {

using cpu::DefaultSpec;
using cpu::RandomCell;
using cpu::Sequences;
using plugin::PluginEngine;
using plugin::PluginOptions;
using testing::HasSubstr;

// A function of the fake, past the ABI.
template <typename Function>
Function* Fake(const char* name) {
  return reinterpret_cast<Function*>(dlsym(dlopen(CUDA_PLUGIN, RTLD_NOW | RTLD_LOCAL), name));
}
int64_t Count(const char* what) { return Fake<int64_t(const char*)>("fake_cuda_count")(what); }
int64_t Allocated() { return Fake<int64_t()>("fake_cuda_allocated")(); }

class FakeDeviceTest : public testing::Test {
 protected:
  FakeDeviceTest() { Fake<void()>("fake_cuda_forget")(); }
  ~FakeDeviceTest() override {
    Fake<void()>("fake_cuda_forget")();
    EXPECT_EQ(Allocated(), 0) << "device memory leaked";
  }
  static void Set(const std::string& fault) { Fake<void(const char*)>("fake_cuda_set")(fault.c_str()); }
};

std::unique_ptr<PluginEngine> Load(PluginOptions options = {}) {
  return PluginEngine::Load(CUDA_PLUGIN, std::move(options)).value();
}

ProgramPtr Compile(const Engine& engine, const CellSpec& spec, EngineOptions options = {}) {
  return engine.Compile(RandomCell(spec, 1), options).value();
}

CellSpec Lstm(int64_t units, DataType type = DataType::kFloat) {
  return DefaultSpec(CellKind::kLstm, type, units, units);
}

// `rows` sequences of these steps, through one Advance.
absl::Status Advance(const Program& program, const CellSpec& spec, const std::vector<int64_t>& steps) {
  Sequences sequences(program, spec);
  for (size_t k = 0; k < steps.size(); ++k) sequences.Add(steps[k], static_cast<uint32_t>(k));
  const auto workspace = program.NewWorkspace();
  return program.Advance(sequences.All(), *workspace);
}

// All that comes out of an Advance of these sequences, from states that are still on the host.
std::vector<double> Outputs(const Program& program, const CellSpec& spec, const std::vector<int64_t>& steps) {
  Sequences sequences(program, spec);
  for (size_t k = 0; k < steps.size(); ++k) sequences.Add(steps[k], static_cast<uint32_t>(k));
  const auto workspace = program.NewWorkspace();
  EXPECT_EQ(program.Advance(sequences.All(), *workspace), absl::OkStatus());
  std::vector<double> outputs;
  for (size_t k = 0; k < steps.size(); ++k) {
    for (const double value : sequences.Y(k)) outputs.push_back(value);
    for (const double value : sequences.FinalState(k)) outputs.push_back(value);
  }
  return outputs;
}

// How many values differ.
int Wrong(const std::vector<double>& got, const std::vector<double>& want) {
  int wrong = 0;
  for (size_t at = 0; at < want.size(); ++at) wrong += !(std::fabs(got[at] - want[at]) <= 1e-5);
  return wrong;
}

struct OpenFault {
  std::string name;
  std::vector<std::string> words;
};
void PrintTo(const OpenFault& fault, std::ostream* out) { *out << fault.name; }

class OpenFaults : public FakeDeviceTest, public testing::WithParamInterface<OpenFault> {};

TEST_P(OpenFaults, AreToldInOneLine) {
  Set(GetParam().name);
  const absl::Status status = PluginEngine::Load(CUDA_PLUGIN, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  const std::string message(status.message());
  for (const std::string& words : GetParam().words) EXPECT_THAT(message, HasSubstr(words));
  EXPECT_THAT(message, testing::Not(HasSubstr("\n")));
}

INSTANTIATE_TEST_SUITE_P(
    Table, OpenFaults,
    testing::Values(OpenFault{"no_driver", {"no NVIDIA driver is installed here", "CUDA 13.0 (580 or later)"}},
                    OpenFault{"old_driver", {"the NVIDIA driver here is for CUDA 12.4", "CUDA 13.0 (580 or later)"}},
                    OpenFault{"no_device", {"finds no device", "CUDA_VISIBLE_DEVICES"}},
                    OpenFault{"old_device", {"Fake GPU has compute capability 7.0", "needs 7.5"}},
                    OpenFault{"no_kernel_image", {"launching a kernel: cudaErrorNoKernelImageForDevice"}}),
    [](const auto& fault) { return fault.param.name; });

TEST_F(FakeDeviceTest, ADeviceThatIsNotThereIsNamed) {
  const absl::Status status = PluginEngine::Load(CUDA_PLUGIN, {.device = 1}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("CUDA device 1 was asked for, but this machine has 1"));
}

TEST_F(FakeDeviceTest, DescribesItself) {
  EXPECT_EQ(Load()->description(),
            "Fake GPU, compute capability 9.0, CUDA driver 13.0, runtime 13.0, cuDNN 9.19.0, may use 230 of 256 MiB");
}

TEST_F(FakeDeviceTest, MemoryAboveTheBudgetIsRefusedAndComesBack) {
  const auto engine = Load({.memory_limit_bytes = int64_t{48} << 20});
  // 8 * 640^2 floats are 12.5 MiB, twice: cuDNN's and the general path's.
  const absl::Status refused = engine->Compile(RandomCell(Lstm(640), 1), {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("of the engine's 50331648 are taken; retry later"));
  const int64_t before = Allocated();
  for (int k = 0; k < 3; ++k) {
    const CellSpec spec = Lstm(128);
    EXPECT_EQ(Advance(*Compile(*engine, spec), spec, {2, 1}), absl::OkStatus());
  }
  // What stays is bounded: a context's buffers and a slab of states.
  EXPECT_LE(Allocated(), before + (int64_t{8} << 20));
  EXPECT_EQ(engine->Supports(Lstm(1), {}), absl::OkStatus()) << "out of memory is not out of service";
}

TEST_F(FakeDeviceTest, StatesAboveTheBudgetAreRefused) {
  const auto engine = Load({.memory_limit_bytes = int64_t{36} << 20});
  const CellSpec small = DefaultSpec(CellKind::kRnn, DataType::kFloat, 1, 64);
  const auto program = Compile(*engine, small);
  std::vector<std::unique_ptr<State>> states;
  for (int k = 0; k < 40'000; ++k) {
    states.push_back(program->NewState());
    if (!states.back()->failure().ok()) break;
  }
  EXPECT_EQ(states.back()->failure().code(), absl::StatusCode::kResourceExhausted);
  states.clear();
  EXPECT_EQ(program->NewState()->failure(), absl::OkStatus());
}

TEST_F(FakeDeviceTest, AFullDeviceIsNotAFailedOne) {
  const auto engine = Load();
  Set("no_memory");
  EXPECT_EQ(engine->Compile(RandomCell(Lstm(8), 1), {}).status().code(), absl::StatusCode::kResourceExhausted);
  Set("");
  const CellSpec spec = Lstm(8);
  EXPECT_EQ(Advance(*Compile(*engine, spec), spec, {3}), absl::OkStatus());
}

TEST_F(FakeDeviceTest, AFailureForGoodTakesTheEngineOutOfService) {
  std::vector<std::string> told;
  const auto engine = Load({.on_failure = [&](const std::string& reason) { told.push_back(reason); }});
  const CellSpec spec = Lstm(8);
  const auto program = Compile(*engine, spec);
  Sequences on_device(*program, spec), imported(*program, spec), fresh(*program, spec);
  on_device.Add(4, 1);
  imported.Add(4, 2);
  fresh.Add(4, 3);
  const auto workspace = program->NewWorkspace();
  ASSERT_EQ(program->Advance(std::vector{on_device.Slice(0, 0, 2)}, *workspace), absl::OkStatus());
  const std::vector<std::byte> imported_bits = imported.FinalStateBytes(0);

  Set("illegal_address");
  SequenceSlice stateless = fresh.Slice(0, 0, 2);
  stateless.before = nullptr;
  const absl::Status lost = program->Advance(std::vector{stateless}, *workspace);
  EXPECT_EQ(lost.code(), absl::StatusCode::kUnavailable) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("cudaErrorIllegalAddress"));
  EXPECT_THAT(std::string(lost.message()), HasSubstr("no state was lost, send it again"));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], HasSubstr("cudaErrorIllegalAddress"));

  EXPECT_EQ(engine->Supports(spec, {}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(engine->Compile(RandomCell(spec, 2), {}).status().code(), absl::StatusCode::kUnavailable);
  // What lay on the device is gone, and says so; what had not got there yet is still here.
  EXPECT_EQ(program->Advance(std::vector{on_device.Slice(0, 2, 2)}, *workspace).code(), absl::StatusCode::kDataLoss);
  on_device.FinalStateBytes(0);
  EXPECT_EQ(on_device.at(0).state->failure().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(program->Advance(std::vector{imported.Slice(0, 0, 2)}, *workspace).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(imported.FinalStateBytes(0), imported_bits);
  EXPECT_EQ(imported.at(0).state->failure(), absl::OkStatus());
  EXPECT_EQ(told.size(), 1u);
}

TEST_F(FakeDeviceTest, AStateThatTheFailingCallWasGoingOnFromIsLost) {
  const auto engine = Load();
  const CellSpec spec = Lstm(8);
  const auto program = Compile(*engine, spec);
  Sequences sequences(*program, spec);
  sequences.Add(4, 1);
  const auto workspace = program->NewWorkspace();
  ASSERT_EQ(program->Advance(std::vector{sequences.Slice(0, 0, 2)}, *workspace), absl::OkStatus());
  Set("illegal_address");
  EXPECT_EQ(program->Advance(std::vector{sequences.Slice(0, 2, 2)}, *workspace).code(), absl::StatusCode::kDataLoss);
}

TEST_F(FakeDeviceTest, PlacesOfStatesThatAreGoneMakeRoomForOtherSizes) {
  const auto engine = Load({.memory_limit_bytes = int64_t{36} << 20});
  const auto narrow = Compile(*engine, DefaultSpec(CellKind::kRnn, DataType::kFloat, 1, 64));
  const auto wide = Compile(*engine, DefaultSpec(CellKind::kRnn, DataType::kFloat, 1, 256));
  std::vector<std::unique_ptr<State>> states;
  do {
    states.push_back(narrow->NewState());
  } while (states.back()->failure().ok());
  EXPECT_EQ(wide->NewState()->failure().code(), absl::StatusCode::kResourceExhausted);
  const auto last = std::move(states.front());
  states.clear();
  EXPECT_EQ(wide->NewState()->failure(), absl::OkStatus());
  EXPECT_EQ(last->failure(), absl::OkStatus());
}

TEST_F(FakeDeviceTest, BuffersOfIdleLanesMakeRoomForWeights) {
  const auto engine = Load({.memory_limit_bytes = int64_t{40} << 20});
  const CellSpec spec = Lstm(64);
  ASSERT_EQ(Advance(*Compile(*engine, spec), spec, std::vector<int64_t>(64, 20)), absl::OkStatus());
  CellSpec large = DefaultSpec(CellKind::kRnn, DataType::kFloat, 850, 850);  // 5.8 MB of weights
  large.clip = 1;
  EXPECT_LT((int64_t{40} << 20) - engine->Memory()->in_use_bytes, 2 * 850 * 850 * 4);
  EXPECT_EQ(engine->Compile(RandomCell(large, 1), {}).status(), absl::OkStatus());
  EXPECT_EQ(Advance(*Compile(*engine, spec), spec, {3, 2}), absl::OkStatus());
}

TEST_F(FakeDeviceTest, WhatASessionHasKnownDoesNotStayOnTheDevice) {
  const auto engine = Load();
  const CellSpec spec = Lstm(40);  // h and c lie side by side in a state only
  const auto program = Compile(*engine, spec);
  const auto workspace = program->NewWorkspace();
  std::vector<std::byte> known;
  const auto is_known = [&] {
    return Fake<bool(const std::byte*, size_t)>("fake_cuda_holds")(known.data(), known.size());
  };
  {
    Sequences session(*program, spec);
    session.Add(4, 1);
    ASSERT_EQ(program->Advance(std::vector{session.Slice(0, 0, 4)}, *workspace), absl::OkStatus());
    known = session.FinalStateBytes(0);
    ASSERT_TRUE(is_known());
    program->ImportState(DataType::kFloat, nullptr, nullptr, *session.at(0).state);  // as sessions let go of states
  }
  EXPECT_TRUE(is_known()) << "nothing waits for it";
  const CellSpec other = DefaultSpec(CellKind::kRnn, DataType::kDouble, 3, 5);
  ASSERT_EQ(Advance(*Compile(*engine, other), other, {1}), absl::OkStatus());
  EXPECT_FALSE(is_known());
}

TEST_F(FakeDeviceTest, ACellThatCudnnRefusesTakesTheGeneralPath) {
  Set("no_rnn");
  const auto engine = Load();
  for (const DataType type : {DataType::kFloat, DataType::kFloat16}) {
    const CellSpec spec = Lstm(8, type);
    for (const bool reduced : {false, true}) {
      EXPECT_EQ(Advance(*Compile(*engine, spec, {.allow_reduced_precision = reduced}), spec, {3, 1}), absl::OkStatus());
    }
  }
  EXPECT_EQ(Count("standard"), 0);
}

TEST_F(FakeDeviceTest, AShapeThatCudnnRefusesLaterTakesTheGeneralPath) {
  Set("no_cooperative_launch");
  const auto engine = Load();
  const CellSpec spec = Lstm(8);
  const auto program = Compile(*engine, spec);
  ASSERT_EQ(Advance(*program, spec, {5, 1, 3, 7}), absl::OkStatus());
  const int64_t products = Count("product");
  Set("no_forward");
  ASSERT_EQ(Advance(*program, spec, {5, 1, 3, 7}), absl::OkStatus());
  EXPECT_EQ(Count("standard_refused"), 1);
  EXPECT_GT(Count("product"), products);
  ASSERT_EQ(Advance(*program, spec, {5, 1, 3, 7}), absl::OkStatus());
  EXPECT_EQ(Count("standard_refused"), 1) << "it is remembered";
}

TEST_F(FakeDeviceTest, AWorkspaceThatDoesNotFitIsLeftOutThisTime) {
  const auto engine = Load();
  const CellSpec spec = Lstm(8);
  const auto program = Compile(*engine, spec);
  Set("large_workspace");
  ASSERT_EQ(Advance(*program, spec, {5, 1, 3, 7}), absl::OkStatus());
  EXPECT_EQ(Count("standard"), 0);
  Set("");
  ASSERT_EQ(Advance(*program, spec, {5, 1, 3, 7}), absl::OkStatus());
  EXPECT_GT(Count("standard"), 0);
  Set("large_workspace");
  const int64_t products = Count("product");
  ASSERT_EQ(Advance(*program, spec, {5, 1, 3, 7}), absl::OkStatus());
  EXPECT_GT(Count("product"), products);
}

TEST_F(FakeDeviceTest, BFloat16IsWidenedWhereTheDeviceLacksIt) {
  const CellSpec spec = Lstm(8, DataType::kBFloat16);
  const EngineOptions reduced = {.allow_reduced_precision = true};
  ASSERT_EQ(Advance(*Compile(*Load(), spec, reduced), spec, {2}), absl::OkStatus());
  EXPECT_GT(Count("math_tensor"), 0);
  Fake<void()>("fake_cuda_forget")();
  Set("turing");
  ASSERT_EQ(Advance(*Compile(*Load(), spec, reduced), spec, {2}), absl::OkStatus());
  EXPECT_EQ(Count("math_tensor"), 0);
}

// Scripted costs: SMALL_H 1.5, resident 2, STANDARD 2.5, the general path 1 + steps.
TEST_F(FakeDeviceTest, TrialsChooseOnceAShape) {
  const auto engine = Load();
  const CellSpec spec = Lstm(8);
  const auto program = Compile(*engine, spec, {.allow_reduced_precision = true});
  ASSERT_EQ(Advance(*program, spec, std::vector<int64_t>(20, 5)), absl::OkStatus());
  const int64_t small_h = Count("small_h"), standard = Count("standard"), products = Count("product_tf32");
  EXPECT_GT(standard, 0);
  EXPECT_GT(products, 0);
  ASSERT_EQ(Advance(*program, spec, std::vector<int64_t>(19, 6)), absl::OkStatus());
  EXPECT_EQ(Count("small_h"), small_h + 1);
  EXPECT_EQ(Count("standard"), standard);
  EXPECT_EQ(Count("product_tf32"), products);

  // The same bucket of shapes, but more rows than SMALL_H takes: STANDARD from now on.
  ASSERT_EQ(Advance(*program, spec, std::vector<int64_t>(30, 5)), absl::OkStatus());
  EXPECT_EQ(Count("small_h_refused"), 1);
  EXPECT_EQ(Count("standard"), standard + 1);
  ASSERT_EQ(Advance(*program, spec, std::vector<int64_t>(20, 5)), absl::OkStatus());
  EXPECT_EQ(Count("standard"), standard + 2);
}

TEST_F(FakeDeviceTest, SequencesOfFloat32AreResident) {
  const auto engine = Load();
  const CellSpec spec = Lstm(8);
  const auto program = Compile(*engine, spec);
  ASSERT_EQ(Advance(*program, spec, {5, 1, 3, 7}), absl::OkStatus());
  const int64_t resident = Count("resident"), standard = Count("standard"), products = Count("product");
  EXPECT_GT(standard, 0) << "tried";
  EXPECT_EQ(Count("small_h"), 0) << "its functions are approximations";
  ASSERT_EQ(Advance(*program, spec, {5, 1, 3, 7}), absl::OkStatus());
  EXPECT_EQ(Count("resident"), resident + 1);
  EXPECT_EQ(Count("standard"), standard);
  EXPECT_EQ(Count("product"), products + 1) << "of the inputs";
  // Later refused: the next way.
  Set("resident_refused");
  ASSERT_EQ(Advance(*program, spec, {5, 1, 3, 7}), absl::OkStatus());
  EXPECT_EQ(Count("resident_refused"), 1);
  EXPECT_EQ(Count("product"), products + 2 + 1 + 7) << "of the inputs twice, of each step";
  ASSERT_EQ(Advance(*program, spec, {5, 1, 3, 7}), absl::OkStatus());
  EXPECT_EQ(Count("resident_refused"), 1);
}

TEST_F(FakeDeviceTest, WhatIsNotResident) {
  const auto runs = [&](const CellSpec& spec, const std::vector<int64_t>& steps) {
    const auto engine = Load();
    EXPECT_EQ(Advance(*Compile(*engine, spec), spec, steps), absl::OkStatus());
    return Count("resident") > 0;
  };
  EXPECT_FALSE(runs(Lstm(8), {1, 1})) << "one step";
  EXPECT_FALSE(runs(Lstm(10), {3})) << "rows that are no multiples of 16 bytes";
  EXPECT_FALSE(runs(Lstm(8, DataType::kDouble), {3}));
  EXPECT_FALSE(runs(Lstm(512), {3})) << "4 processors don't hold its weights";
  Set("no_cooperative_launch");
  EXPECT_FALSE(runs(Lstm(8), {3}));
}

TEST_F(FakeDeviceTest, RaggedRowsTakeTheStandardAlgorithm) {
  Set("no_cooperative_launch");
  const auto engine = Load();
  const CellSpec spec = Lstm(8);
  const auto program = Compile(*engine, spec);
  ASSERT_EQ(Advance(*program, spec, {5, 1, 3, 7}), absl::OkStatus());
  EXPECT_GT(Count("standard"), 0);
  EXPECT_EQ(Count("small_h"), 0);
  EXPECT_EQ(Count("small_h_refused"), 0);
}

TEST_F(FakeDeviceTest, OneStepOfFloat64IsCheapestOnTheGeneralPath) {
  const auto engine = Load();
  const CellSpec spec = Lstm(8, DataType::kDouble);
  const auto program = Compile(*engine, spec);
  ASSERT_EQ(Advance(*program, spec, {1}), absl::OkStatus());
  const int64_t products = Count("product"), standard = Count("standard"), heuristics = Count("heuristic");
  ASSERT_EQ(Advance(*program, spec, {1}), absl::OkStatus());
  EXPECT_EQ(Count("product"), products + 2);
  EXPECT_EQ(Count("standard"), standard);
  EXPECT_EQ(Count("heuristic"), heuristics) << "an algorithm is looked for once a shape";
}

TEST_F(FakeDeviceTest, Float32IsNotRoundedUnlessAllowed) {
  const auto engine = Load();
  const CellSpec spec = Lstm(8);
  ASSERT_EQ(Advance(*Compile(*engine, spec), spec, {2}), absl::OkStatus());
  EXPECT_GT(Count("math_fma"), 0);
  EXPECT_EQ(Count("math_default") + Count("math_tensor") + Count("product_tf32"), 0);
  const int64_t fma = Count("math_fma");
  ASSERT_EQ(Advance(*Compile(*engine, spec, {.allow_reduced_precision = true}), spec, {2}), absl::OkStatus());
  EXPECT_EQ(Count("math_fma"), fma);
  EXPECT_GT(Count("math_default"), 0);
  EXPECT_GT(Count("product_tf32"), 0);
}

TEST_F(FakeDeviceTest, RunsWithoutSmallH) {
  Set("no_small_h");
  const auto engine = Load();
  const CellSpec spec = Lstm(8);
  EXPECT_EQ(Advance(*Compile(*engine, spec), spec, {4, 4}), absl::OkStatus());
  EXPECT_EQ(Count("small_h"), 0);
}

TEST_F(FakeDeviceTest, AProductWithoutAnAlgorithmIsTold) {
  const auto engine = Load();
  CellSpec spec = Lstm(8);
  spec.clip = 1;
  const auto program = Compile(*engine, spec);
  Set("no_algorithm");
  const absl::Status status = Advance(*program, spec, {2});
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("found no algorithm"));
}

TEST_F(FakeDeviceTest, ManyThreadsShareThreeLanes) {
  const auto engine = Load();
  const CellSpec spec = Lstm(17);
  const CellPtr cell = RandomCell(spec, 1);
  const auto program = engine->Compile(cell, {}).value();
  const auto oracle = MakeReferenceEngine()->Compile(cell, {}).value();
  const std::vector<int64_t> steps = {3, 9, 1, 4};
  const std::vector<double> want = Outputs(*oracle, spec, steps);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int k = 0; k < 8; ++k) {
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        wrong += Wrong(Outputs(*program, spec, steps), want);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(Count("stream"), 3);
}

// Calls that are cut into groups.
class LargeCallTest : public FakeDeviceTest {
 protected:
  static std::unique_ptr<PluginEngine> LoadFor(const char* group_bytes, PluginOptions options = {}) {
    setenv("RNNSERVE_CUDA_COPY_HELPERS", "2", 1);
    setenv("RNNSERVE_CUDA_GROUP_BYTES", group_bytes, 1);
    auto engine = Load(std::move(options));
    unsetenv("RNNSERVE_CUDA_COPY_HELPERS");
    unsetenv("RNNSERVE_CUDA_GROUP_BYTES");
    return engine;
  }
  // How many values differ from the reference engine's.
  int WrongOutputs(const Engine& engine, const std::vector<int64_t>& steps) const {
    return Wrong(Outputs(*engine.Compile(cell_, {}).value(), spec_, steps),
                 Outputs(*MakeReferenceEngine()->Compile(cell_, {}).value(), spec_, steps));
  }

  const CellSpec spec_ = DefaultSpec(CellKind::kRnn, DataType::kFloat, 40, 40);
  const CellPtr cell_ = RandomCell(spec_, 1);
};
// 640 KB of x and y.
constexpr char kThirdOfIt[] = "200000";
const std::vector<int64_t> kThousandOfTwoSteps(1000, 2);

TEST_F(LargeCallTest, GroupsOverlapOnTwoContexts) {
  const auto engine = LoadFor(kThirdOfIt);
  EXPECT_EQ(WrongOutputs(*engine, kThousandOfTwoSteps), 0);  // trials and growing buffers wait for a stream in between
  EXPECT_EQ(Count("stream"), 2);
  const auto program = engine->Compile(cell_, {}).value();
  ASSERT_EQ(Advance(*program, spec_, kThousandOfTwoSteps), absl::OkStatus());
  const int64_t overlaps = Count("overlap");
  ASSERT_EQ(Advance(*program, spec_, kThousandOfTwoSteps), absl::OkStatus());
  EXPECT_EQ(Count("overlap"), overlaps + 2) << "three groups";
}

TEST_F(LargeCallTest, RaggedGroupsOverlap) {
  const auto engine = LoadFor(kThirdOfIt);
  std::vector<int64_t> ragged(2000, 1);
  ragged[17] = 4;
  ragged[500] = 3;
  EXPECT_EQ(WrongOutputs(*engine, ragged), 0);
  EXPECT_GE(Count("overlap"), 2);
}

TEST_F(LargeCallTest, FewBytesFewSlicesAndManyStepsStayTogether) {
  const auto engine = LoadFor("1");
  EXPECT_EQ(WrongOutputs(*engine, std::vector<int64_t>(255, 1)), 0);
  EXPECT_EQ(WrongOutputs(*engine, std::vector<int64_t>(300, 5)), 0);
  EXPECT_EQ(WrongOutputs(*Load(), kThousandOfTwoSteps), 0);
  EXPECT_EQ(Count("overlap"), 0);
  EXPECT_EQ(WrongOutputs(*engine, std::vector<int64_t>(256, 1)), 0);
  EXPECT_GE(Count("overlap"), 1);
}

// In budgets without room for a second context, then with room for it and not for its buffers, then for both.
TEST_F(LargeCallTest, ABudgetForOneContextServesWithOne) {
  const std::vector<double> want =
      Outputs(*MakeReferenceEngine()->Compile(cell_, {}).value(), spec_, kThousandOfTwoSteps);
  bool was_alone = false, was_refused_buffers = false, has_overlapped = false;
  for (int64_t limit = int64_t{64} << 20; limit <= int64_t{69} << 20; limit += int64_t{512} << 10) {
    Fake<void()>("fake_cuda_forget")();
    const auto engine = LoadFor(kThirdOfIt, {.memory_limit_bytes = limit});
    ASSERT_EQ(Wrong(Outputs(*engine->Compile(cell_, {}).value(), spec_, kThousandOfTwoSteps), want), 0) << limit;
    was_alone |= Count("stream") == 1;
    was_refused_buffers |= Count("stream") == 2 && engine->Memory()->in_use_bytes < int64_t{64} << 20;
    has_overlapped |= engine->Memory()->in_use_bytes > int64_t{64} << 20;  // two contexts' workspaces of 32 MiB
  }
  EXPECT_TRUE(was_alone);
  EXPECT_TRUE(was_refused_buffers);
  EXPECT_TRUE(has_overlapped);
}

TEST_F(LargeCallTest, ManyAtOnceShareThreeLanes) {
  const auto engine = LoadFor(kThirdOfIt);
  const auto program = engine->Compile(cell_, {}).value();
  const std::vector<double> want =
      Outputs(*MakeReferenceEngine()->Compile(cell_, {}).value(), spec_, kThousandOfTwoSteps);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) {
    threads.emplace_back([&] {
      for (int round = 0; round < 3; ++round) wrong += Wrong(Outputs(*program, spec_, kThousandOfTwoSteps), want);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(Count("stream"), 3);
}

TEST_F(LargeCallTest, AFailureForGoodEndsTheCall) {
  const auto engine = LoadFor(kThirdOfIt);
  const auto program = engine->Compile(cell_, {}).value();
  ASSERT_EQ(Advance(*program, spec_, kThousandOfTwoSteps), absl::OkStatus());
  Set("illegal_address");
  EXPECT_EQ(Advance(*program, spec_, kThousandOfTwoSteps).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Advance(*program, spec_, {1}).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace rnnserve
