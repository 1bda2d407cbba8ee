// SPDX-License-Identifier: Apache-2.0
// What every engine must hold, with the same bits whatever shares the batch.
#include "engine/cpu/cpu_engine.h"
#include "tests/engine/support/differential_suite.h"
#include "tests/engine/support/engine_suite.h"

namespace rnnserve {
namespace {

INSTANTIATE_TEST_SUITE_P(Cpu, EngineSuite, testing::ValuesIn(EngineCases("cpu", &MakeCpuEngine, true)), EngineCaseName);
INSTANTIATE_TEST_SUITE_P(Cpu, DifferentialSuite, testing::ValuesIn(EngineCases("cpu", &MakeCpuEngine, true)),
                         EngineCaseName);

}  // namespace
}  // namespace rnnserve
