// SPDX-License-Identifier: Apache-2.0
// The eleven functions over runs of values, with the clip of their input: f(K(v)) of recurrent-operators.md section 5.
//
//   ClippedActivation<float> f(activation, clip);
//   f.Apply(values, count);   // in place; count is a multiple of kLine<float>, values begin on a cache line
//   f.ApplyToSums(sums);      // to W x + R h, on their way to where they are wanted
//
// NaN in gives NaN out; no value depends on its neighbours. Against the exact functions the error is a few units in the
// last place, near 0 as well.
#pragma once

#include <cstddef>

#include "engine/cell.h"
#include "engine/cpu/product.h"

namespace rnnserve::cpu {

// inputs + state, of a few lines of some rows, and where the function of it goes.
template <typename T>
struct LineSums {
  size_t count = 0;  // of rows
  size_t lines = 0;
  Rows<const T> inputs;
  Rows<const T> state;
  T* target = nullptr;
  // Between rows and between lines of the target, in elements.
  size_t row_stride = 0;
  size_t line_stride = 0;
};

template <typename T>
class ClippedActivation {
 public:
  ClippedActivation() = default;
  // `clip` > 0; infinity clips nothing.
  ClippedActivation(const Activation& activation, double clip);

  void Apply(T* values, size_t count) const {
    ApplyToSums({count / kLine<T>, 1, {values, kLine<T>}, {kZeroLines<T>, 0}, values, kLine<T>, 0});
  }
  void ApplyToSums(const LineSums<T>& sums) const { run_(sums, parameters_); }

  struct Parameters {
    T alpha = 0;
    T beta = 0;
    T clip = 0;
  };
  using Run = void (*)(const LineSums<T>& sums, const Parameters& parameters);

 private:
  Run run_ = nullptr;
  Parameters parameters_;
};

}  // namespace rnnserve::cpu
