// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/cuda/selftest/fact_checks.h"

#include <algorithm>
#include <limits>

namespace rnnserve::selftest {

const char* KindName(const RnnCase& c) {
  return c.kind == RNNSERVE_LSTM ? "LSTM" : c.kind == RNNSERVE_GRU ? "GRU" : c.relu ? "RNN relu" : "RNN tanh";
}

double Error(const RnnCase& c, const RnnResult& got, const RnnResult& want) {
  if (!got.ok()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  const auto width = static_cast<size_t>(c.directions * c.hidden);
  for (int t = 0; t < c.steps; ++t) {
    for (int n = 0; n < c.rows; ++n) {
      if (!c.lengths.empty() && t >= c.lengths[static_cast<size_t>(n)]) continue;
      const size_t at = (static_cast<size_t>(t) * static_cast<size_t>(c.rows) + static_cast<size_t>(n)) * width;
      for (size_t k = at; k < at + width; ++k) worst = std::max(worst, Distance(got.y[k], want.y[k]));
    }
  }
  if (!got.h.empty()) worst = std::max(worst, WorstDistance(got.h, want.h));
  if (!got.c.empty()) worst = std::max(worst, WorstDistance(got.c, want.c));
  return worst;
}

RnnResult ExpectRight(const std::string& name, const RnnCase& c, double tolerance) {
  const RnnData data = MakeData(c, 7);
  RnnResult got = RunCudnn(c, data);
  const double error = Error(c, got, RunExpected(c, data));
  Report(error <= tolerance, name, "%s, error %.2e (allowed %.0e)", got.Why().c_str(), error, tolerance);
  return got;
}

void ExpectRefused(const std::string& name, const RnnCase& c) {
  const RnnData data = MakeData(c, 7);
  const RnnResult got = RunCudnn(c, data);
  if (got.ok()) {
    Report(false, name, "accepted, error %.2e", Error(c, got, RunExpected(c, data)));
  } else {
    Report(true, name, "refused: %s", got.Why().c_str());
  }
}

RnnCase Case(int kind, bool relu) {
  RnnCase c;
  c.kind = kind;
  c.relu = relu;
  return c;
}

std::vector<RnnCase> AllCells() {
  return {Case(RNNSERVE_LSTM), Case(RNNSERVE_GRU), Case(RNNSERVE_RNN), Case(RNNSERVE_RNN, true)};
}

}  // namespace rnnserve::selftest
