// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/cuda/selftest/facts.h"

#include "tests/engine/cuda/selftest/selftest.h"

namespace rnnserve::selftest {

void RunFacts() {
  Mappings();
  Types();
  Optional();
  Layouts();
  Algorithms();
  Clip();
  Projection();
  NotANumber();
  Repeatability();
  TemporarySpace();
  Costs();
}

void RunRiskyFacts() { ZeroSizes(); }

}  // namespace rnnserve::selftest
