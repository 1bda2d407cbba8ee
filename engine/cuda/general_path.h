// SPDX-License-Identifier: Apache-2.0
// The path for every cell: one product for the inputs of all steps, then a product and a gate kernel a step.
#pragma once

#include "engine/cuda/path.h"

namespace rnnserve::cuda {

class GeneralPath {
 public:
  GeneralPath(Device& device, const rnnserve_cell& cell, const rnnserve_weights& weights);

  int64_t bytes() const { return static_cast<int64_t>(weights_.size()); }
  size_t TemporaryBytes(int64_t rows, int64_t active) const;
  // Asynchronous on the context's stream.
  void Run(const Work& work) const;

 private:
  template <typename T>
  void RunTyped(const Work& work) const;
  template <typename T>
  void Upload(Device& device, const rnnserve_weights& weights);

  rnnserve_cell cell_;
  DeviceBuffer weights_;
  // Element offsets into weights_; bias = wb + rb.
  int64_t r_ = 0, wb_ = 0, rb_ = 0, bias_ = 0, p_ = 0;
};

}  // namespace rnnserve::cuda
