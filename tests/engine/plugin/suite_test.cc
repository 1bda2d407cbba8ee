// SPDX-License-Identifier: Apache-2.0
// The suites of all engines, in the types that the fake supports.
#include "tests/engine/plugin/fake_plugin.h"
#include "tests/engine/support/differential_suite.h"
#include "tests/engine/support/engine_suite.h"

namespace rnnserve {
namespace {

std::unique_ptr<Engine> MakeFake() { return plugin::LoadFake("").value(); }

const EngineCase kFloat = EngineCases("plugin", &MakeFake, true)[0];
const EngineCase kDouble = EngineCases("plugin", &MakeFake, true)[1];

INSTANTIATE_TEST_SUITE_P(Plugin, EngineSuite, testing::Values(kFloat, kDouble), EngineCaseName);
INSTANTIATE_TEST_SUITE_P(Plugin, DifferentialSuite, testing::Values(kFloat, kDouble), EngineCaseName);

}  // namespace
}  // namespace rnnserve
