// SPDX-License-Identifier: Apache-2.0
// The reference against the naive oracle, and the properties that every engine inherits.
#include "engine/reference/reference_engine.h"

#include "tests/engine/support/differential_suite.h"

namespace rnnserve {
namespace {

constexpr bool kBitExact = true;

INSTANTIATE_TEST_SUITE_P(Reference, EngineSuite,
                         testing::ValuesIn(EngineCases("reference", &MakeReferenceEngine, kBitExact)), EngineCaseName);
INSTANTIATE_TEST_SUITE_P(Reference, DifferentialSuite,
                         testing::ValuesIn(EngineCases("reference", &MakeReferenceEngine, kBitExact)), EngineCaseName);

}  // namespace
}  // namespace rnnserve
