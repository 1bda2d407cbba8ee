// SPDX-License-Identifier: Apache-2.0
// Workers on shared programs: right results, and no threads besides the workers.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

#include "engine/onednn/onednn_engine.h"
#include "tests/engine/cpu/random_sequences.h"

namespace rnnserve::onednn {
namespace {

constexpr int kWorkers = 6;

std::vector<CellSpec> SharedSpecs() {
  std::vector<CellSpec> specs;
  for (const CellKind kind : {CellKind::kLstm, CellKind::kGru, CellKind::kRnn}) {
    specs.push_back(cpu::DefaultSpec(kind, DataType::kFloat, 24, 64));
  }
  specs.push_back(specs[1]);
  specs.back().linear_before_reset = true;
  return specs;
}

// y and the states of rows of ragged lengths, as values.
std::vector<double> RunRows(const Program& program, const CellSpec& spec, uint32_t rows) {
  cpu::Sequences sequences(program, spec);
  for (uint32_t row = 0; row < rows; ++row) sequences.Add(1 + (row * 7) % 40, row);
  const auto workspace = program.NewWorkspace();
  EXPECT_TRUE(program.Advance(sequences.All(), *workspace).ok());
  std::vector<double> results;
  for (uint32_t row = 0; row < rows; ++row) {
    for (const auto& part : {sequences.Y(row), sequences.FinalState(row)}) {
      results.insert(results.end(), part.begin(), part.end());
    }
  }
  return results;
}

std::ptrdiff_t ThreadsOfThisProcess() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

TEST(OneDnnThreads, WorkersShareProgramsAndBringNoThreadsOfTheirOwn) {
  const std::vector<CellSpec> specs = SharedSpecs();
  std::vector<ProgramPtr> programs, fresh;
  std::vector<std::vector<double>> want;
  for (const CellSpec& spec : specs) {
    const CellPtr cell = cpu::RandomCell(spec, 5);
    programs.push_back(MakeOneDnnEngine()->Compile(cell, {}).value());
    // Primitives of `programs` are made by the workers, at once.
    const ProgramPtr alone = MakeOneDnnEngine()->Compile(cell, {}).value();
    for (uint32_t rows = 1; rows <= kWorkers; ++rows) want.push_back(RunRows(*alone, spec, rows * 5));
  }

  const std::ptrdiff_t before = ThreadsOfThisProcess();
  std::atomic<std::ptrdiff_t> most = 0;
  std::atomic<int> wrong = 0;
  std::barrier start(kWorkers);
  std::vector<std::thread> workers;
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    workers.emplace_back([&, worker] {
      start.arrive_and_wait();
      for (size_t round = 0; round < 4 * specs.size(); ++round) {
        const size_t spec = (round + worker) % specs.size();
        const size_t rows = (round + worker) % kWorkers + 1;
        const auto got = RunRows(*programs[spec], specs[spec], static_cast<uint32_t>(rows * 5));
        const auto& right = want[spec * kWorkers + rows - 1];
        if (got.size() != right.size()) ++wrong;
        for (size_t k = 0; k < got.size() && k < right.size(); ++k) wrong += !(std::abs(got[k] - right[k]) <= 1e-5);
        const std::ptrdiff_t now = ThreadsOfThisProcess();
        for (std::ptrdiff_t seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
        }
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(most, before + kWorkers);
}

// The caller's own OpenMP settings are its own.
TEST(OneDnnThreads, TheCallersTeamIsLeftAsItWas) {
  const CellSpec spec = SharedSpecs()[0];
  const ProgramPtr program = MakeOneDnnEngine()->Compile(cpu::RandomCell(spec, 5), {}).value();
  const std::ptrdiff_t before = ThreadsOfThisProcess();
  RunRows(*program, spec, 40);
  EXPECT_EQ(ThreadsOfThisProcess(), before);
}

}  // namespace
}  // namespace rnnserve::onednn
