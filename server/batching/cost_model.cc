// SPDX-License-Identifier: Apache-2.0
#include "server/batching/cost_model.h"

#include <algorithm>

namespace rnnserve {
namespace {

// A core that reads weights from its outer caches, and multiplies by them once they are there. Only the first slices of
// a program depend on these.
constexpr double kWeightBytesPerSecond = 30e9;
constexpr double kMultiplicationsPerSecond = 40e9;
constexpr double kLeastStepSeconds = 1e-6;
constexpr double kLeastRowSeconds = 2e-7;
constexpr double kGuessWeight = 2;  // slices
constexpr double kDecay = 0.98;
constexpr double kShortestSlice = 1e-7;  // seconds

}  // namespace

CostModel::CostModel(int64_t packed_bytes, int64_t step_work)
    : step_seconds_(kLeastStepSeconds + static_cast<double>(packed_bytes) / kWeightBytesPerSecond),
      row_seconds_(kLeastRowSeconds + static_cast<double>(step_work) / kMultiplicationsPerSecond) {
  // As if two slices had been seen: one of few rows, one of many.
  for (const double rows : {1.0, 64.0}) {
    const double seconds = Seconds(1, rows);
    Add(1 / seconds, rows / seconds, kGuessWeight / 2);
  }
}

void CostModel::Learn(int64_t steps, int64_t row_steps, double seconds) {
  if (steps < 1 || row_steps < steps) return;
  seconds = std::max(seconds, kShortestSlice);
  for (double* sum : {&uu_, &uv_, &vv_, &u_, &v_}) *sum *= kDecay;
  Add(static_cast<double>(steps) / seconds, static_cast<double>(row_steps) / seconds, 1);
  ++learned_;
  Solve();
}

void CostModel::Add(double u, double v, double weight) {
  uu_ += weight * u * u;
  uv_ += weight * u * v;
  vv_ += weight * v * v;
  u_ += weight * u;
  v_ += weight * v;
}

void CostModel::Solve() {
  const double determinant = uu_ * vv_ - uv_ * uv_;
  // Slices nearly all of one shape leave the split between the two parts open; then it stays as it was and both scale.
  if (determinant > 1e-2 * uu_ * vv_) {
    const double step = (u_ * vv_ - v_ * uv_) / determinant;
    const double row = (v_ * uu_ - u_ * uv_) / determinant;
    if (step > 0 && row > 0) {
      step_seconds_ = step;
      row_seconds_ = row;
      return;
    }
  }
  const double a = step_seconds_, b = row_seconds_;
  const double fitted = a * u_ + b * v_;
  const double squares = a * a * uu_ + 2 * a * b * uv_ + b * b * vv_;
  step_seconds_ = a * fitted / squares;
  row_seconds_ = b * fitted / squares;
}

}  // namespace rnnserve
