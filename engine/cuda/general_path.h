// SPDX-License-Identifier: Apache-2.0
// The path for every cell: one product for the inputs of all steps, then a product and a gate kernel a step, or one
// resident launch for all steps where the cell fits it.
#pragma once

#include "engine/cuda/path.h"
#include "engine/cuda/resident.h"

namespace rnnserve::cuda {

class GeneralPath {
 public:
  GeneralPath(Device& device, const rnnserve_cell& cell, const rnnserve_weights& weights);

  int64_t bytes() const { return static_cast<int64_t>(weights_.size()); }
  size_t TemporaryBytes(int64_t rows, int64_t active) const;
  enum class Recurrence { kSteps, kResident };
  bool MayRun(Recurrence recurrence, const Block& block) const;
  // Asynchronous on the context's stream.
  void Run(Recurrence recurrence, const Work& work) const;

 private:
  template <typename T>
  void RunTyped(Recurrence recurrence, const Work& work) const;
  template <typename T>
  void RunSteps(const Work& work, T* gates, T* aside) const;
  void RunResident(const Work& work, float* gates, float* aside) const;
  ResidentPlan PlanOf(const Block& block) const;
  template <typename T>
  void Upload(Device& device, const rnnserve_weights& weights);

  const ResidentLimits limits_;
  rnnserve_cell cell_;
  DeviceBuffer weights_;
  // Element offsets into weights_; bias = wb + rb.
  int64_t r_ = 0, wb_ = 0, rb_ = 0, bias_ = 0, p_ = 0;
};

}  // namespace rnnserve::cuda
