// SPDX-License-Identifier: Apache-2.0
// The suites of all engines through the whole plugin on the fake device: with trials choosing, in small
// blocks, by the general path alone, and in reduced precision.
#include <cstdlib>

#include "engine/plugin/plugin_engine.h"
#include "tests/engine/support/differential_suite.h"
#include "tests/engine/support/engine_suite.h"

namespace rnnserve {
namespace {

std::unique_ptr<Engine> Load(const char* path, const char* block_bytes = nullptr) {
  setenv("RNNSERVE_CUDA_PATH", path, 1);
  if (block_bytes != nullptr) setenv("RNNSERVE_CUDA_BLOCK_BYTES", block_bytes, 1);
  auto engine = plugin::PluginEngine::Load(CUDA_PLUGIN, {});
  unsetenv("RNNSERVE_CUDA_PATH");
  unsetenv("RNNSERVE_CUDA_BLOCK_BYTES");
  return std::move(engine).value();
}
std::unique_ptr<Engine> ByTrial() { return Load(""); }
// A few rows a block: slices are cut in time, and large batches into groups.
std::unique_ptr<Engine> BySmallBlocks() { return Load("", "4096"); }
std::unique_ptr<Engine> GeneralOnly() { return Load("general"); }

std::unique_ptr<Engine> Resident() { return Load("resident"); }

std::vector<EngineCase> Cases() {
  std::vector<EngineCase> cases = EngineCases("by_trial", &ByTrial);
  cases.push_back({"small_blocks", &BySmallBlocks, DataType::kFloat, 1e-5});
  cases.push_back({"small_blocks", &BySmallBlocks, DataType::kDouble, 1e-12});
  cases.push_back({"general", &GeneralOnly, DataType::kFloat, 1e-5});
  cases.push_back({"resident", &Resident, DataType::kFloat, 1e-5});
  // h and weights rounded to 16 bits where the caller allows it.
  const EngineOptions reduced = {.allow_reduced_precision = true};
  cases.push_back(
      {.name = "reduced", .make = &ByTrial, .type = DataType::kFloat16, .tolerance = 4e-3, .options = reduced});
  cases.push_back(
      {.name = "reduced", .make = &ByTrial, .type = DataType::kBFloat16, .tolerance = 3e-2, .options = reduced});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(FakeDevice, EngineSuite, testing::ValuesIn(Cases()), EngineCaseName);
INSTANTIATE_TEST_SUITE_P(FakeDevice, DifferentialSuite, testing::ValuesIn(Cases()), EngineCaseName);

}  // namespace
}  // namespace rnnserve
