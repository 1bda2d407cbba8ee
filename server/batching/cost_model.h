// SPDX-License-Identifier: Apache-2.0
// What a slice of one program costs, learned while running.
//
//   CostModel cost(packed_bytes, step_work);      // a guess from the weights and the multiplications of a step
//   cost.Learn(steps, row_steps, seconds);        // after each slice
//   double expected = cost.Seconds(steps, row_steps);
//
// A slice of `steps` steps, in which the rows still active add up to `row_steps`, takes
//
//   step_seconds * steps + row_seconds * row_steps
//
// The first part is what a step costs however many rows share it (the weights come through the caches once, the call
// itself), the second what each row adds. The fit is least squares of the relative error, older slices fading: a slice
// that the operating system interrupted weighs next to nothing. Not thread-safe.
#pragma once

#include <cstdint>

namespace rnnserve {

class CostModel {
 public:
  CostModel(int64_t packed_bytes, int64_t step_work);

  void Learn(int64_t steps, int64_t row_steps, double seconds);

  double Seconds(double steps, double row_steps) const { return step_seconds_ * steps + row_seconds_ * row_steps; }
  double step_seconds() const { return step_seconds_; }
  double row_seconds() const { return row_seconds_; }

  // Whether enough was measured to refuse requests by it.
  bool is_known() const { return learned_ >= kKnown; }

 private:
  static constexpr int64_t kKnown = 8;

  void Add(double u, double v, double weight);
  void Solve();

  // Decayed sums over slices of u * u, u * v, v * v, u, v, where u = steps / seconds and v = row_steps / seconds.
  double uu_ = 0, uv_ = 0, vv_ = 0, u_ = 0, v_ = 0;
  double step_seconds_;
  double row_seconds_;
  int64_t learned_ = 0;
};

}  // namespace rnnserve
