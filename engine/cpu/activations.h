// SPDX-License-Identifier: Apache-2.0
// The eleven functions over runs of values, with the clip of their input: f(K(v)) of recurrent-operators.md section 5.
//
//   ClippedActivation<float> f(activation, clip);
//   f.Apply(values, count);   // in place; count is a multiple of kLine<float>, values begin on a cache line
//
// NaN in gives NaN out; no value depends on its neighbours. Against the exact functions the error is a few units in the
// last place, near 0 as well.
#pragma once

#include <cstddef>

#include "engine/cell.h"

namespace rnnserve::cpu {

template <typename T>
class ClippedActivation {
 public:
  ClippedActivation() = default;
  // `clip` > 0; infinity clips nothing.
  ClippedActivation(const Activation& activation, double clip);

  void Apply(T* values, size_t count) const { run_(values, count, parameters_); }

  struct Parameters {
    T alpha = 0;
    T beta = 0;
    T clip = 0;
  };
  using Run = void (*)(T* values, size_t count, const Parameters& parameters);

 private:
  Run run_ = nullptr;
  Parameters parameters_;
};

}  // namespace rnnserve::cpu
