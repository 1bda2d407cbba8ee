// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/support/compare.h"

#include <algorithm>
#include <cmath>

namespace rnnserve {
namespace {

double Error(double got, double want) {
  if (std::isnan(got) && std::isnan(want)) return 0;
  if (got == want) return 0;
  const double error = std::fabs(got - want) / std::max(1.0, std::fabs(want));
  return std::isnan(error) ? HUGE_VAL : error;
}

testing::AssertionResult SameKind(const OwnedTensor& got, const OwnedTensor& want) {
  if (got.name != want.name || got.type != want.type || got.shape != want.shape) {
    return testing::AssertionFailure() << got.name << " " << DataTypeName(got.type) << ShapeString(got.shape)
                                       << " where " << want.name << " " << DataTypeName(want.type)
                                       << ShapeString(want.shape) << " was expected";
  }
  return testing::AssertionSuccess();
}

}  // namespace

testing::AssertionResult ValuesNear(std::span<const double> got, std::span<const double> want, double tolerance,
                                    Tally* tally) {
  if (got.size() != want.size()) return testing::AssertionFailure() << got.size() << " values, not " << want.size();
  for (size_t k = 0; k < got.size(); ++k) {
    const double error = Error(got[k], want[k]);
    if (tally != nullptr) {
      ++tally->values;
      tally->worst = std::max(tally->worst, error);
    }
    if (error > tolerance) {
      return testing::AssertionFailure() << "value " << k << " of " << got.size() << " is " << got[k] << ", not "
                                         << want[k] << " (error " << error << ", allowed " << tolerance << ")";
    }
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult TensorsNear(const OwnedTensor& got, const OwnedTensor& want, double tolerance, Tally* tally) {
  if (auto same = SameKind(got, want); !same) return same;
  auto near = ValuesNear(got.Values(), want.Values(), tolerance, tally);
  return near ? near : near << " in " << got.name << ShapeString(got.shape);
}

testing::AssertionResult TensorsIdentical(const OwnedTensor& got, const OwnedTensor& want) {
  if (auto same = SameKind(got, want); !same) return same;
  if (got.bytes != want.bytes) return testing::AssertionFailure() << got.name << " differs in its bits";
  return testing::AssertionSuccess();
}

}  // namespace rnnserve
