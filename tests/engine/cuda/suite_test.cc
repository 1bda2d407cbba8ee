// SPDX-License-Identifier: Apache-2.0
// The cuda engine's host build against the reference: all kinds, functions, flags, types, strides and lengths.
#include "tests/engine/cuda/host_engine.h"
#include "tests/engine/support/differential_suite.h"

namespace rnnserve {
namespace {

const std::vector<EngineCase> kCases = EngineCases("cuda_on_host", &cuda::MakeHostEngine, true);

INSTANTIATE_TEST_SUITE_P(CudaOnHost, EngineSuite, testing::ValuesIn(kCases), EngineCaseName);
INSTANTIATE_TEST_SUITE_P(CudaOnHost, DifferentialSuite, testing::ValuesIn(kCases), EngineCaseName);

}  // namespace
}  // namespace rnnserve
