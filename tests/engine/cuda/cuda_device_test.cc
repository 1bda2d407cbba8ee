// SPDX-License-Identifier: Apache-2.0
// Whole operators on a device through the loader, against the naive oracle. Skipped by name where there is no device.
// RNNSERVE_CUDA_PLUGIN names another library than the one built beside it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>

#include "engine/plugin/plugin_engine.h"
#include "tests/engine/support/compare.h"
#include "tests/engine/support/naive_operator.h"
#include "tests/engine/support/run_operator.h"

namespace rnnserve {
namespace {

struct TypeCase {
  DataType type;
  double tolerance;
};

std::string TypeCaseName(const testing::TestParamInfo<TypeCase>& test) {
  return std::string(DataTypeName(test.param.type));
}

class CudaDeviceTest : public testing::TestWithParam<TypeCase> {};

TEST_P(CudaDeviceTest, OperatorsMatchTheNaiveOracle) {
  const char* const named = std::getenv("RNNSERVE_CUDA_PLUGIN");
  const auto engine = plugin::PluginEngine::Load(named != nullptr ? named : CUDA_PLUGIN, {});
  if (!engine.ok()) GTEST_SKIP() << "needs a device: " << engine.status().message();
  std::mt19937_64 random(7);
  for (int k = 0; k < 200; ++k) {
    const RandomOperator op = MakeTameOperator(random, GetParam().type);
    SCOPED_TRACE(op.Describe());
    const auto got = RunOperator(**engine, op.op, op.inputs);
    ASSERT_TRUE(got.ok()) << got.status();
    for (const auto& [name, values] : RunNaively(op)) {
      EXPECT_TRUE(ValuesNear(got->at(name).Values(), values, GetParam().tolerance)) << "in " << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaDeviceTest,
                         testing::Values(TypeCase{DataType::kFloat, 1e-5}, TypeCase{DataType::kDouble, 1e-12},
                                         TypeCase{DataType::kFloat16, 2e-3}, TypeCase{DataType::kBFloat16, 1e-2}),
                         TypeCaseName);

}  // namespace
}  // namespace rnnserve
