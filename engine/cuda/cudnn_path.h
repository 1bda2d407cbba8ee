// SPDX-License-Identifier: Apache-2.0
// The cuDNN path: cells that cudnnRNNForward computes exactly as specified, and its algorithms.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/cuda/path.h"

namespace rnnserve::cuda {

enum class CudnnAlgorithm { kStandard, kSmallH };

class CudnnPath {
 public:
  // `run_type`: of x, y, h, c and the weights on the device.
  CudnnPath(Device& device, ExecutionContext& context, const rnnserve_cell& cell, const rnnserve_weights& weights,
            int run_type);

  int64_t bytes() const;
  // Whether it is worth a trial: the algorithm may still refuse the shape.
  bool MayRun(CudnnAlgorithm algorithm, const Block& block) const;
  // Asynchronous on the context's stream. Throws where cuDNN refuses.
  void Run(CudnnAlgorithm algorithm, const Work& work) const;

 private:
  // A configured descriptor with weights in the layout that it asked for.
  class Plan {
   public:
    Plan() = default;
    ~Plan();
    Plan(const Plan&) = delete;
    Plan& operator=(const Plan&) = delete;
    cudnnRNNDescriptor_t desc = nullptr;
    std::shared_ptr<const DeviceBuffer> weights;
    std::vector<size_t> layout;  // where each block lies, and the total
  };
  std::unique_ptr<Plan> MakePlan(Device& device, ExecutionContext& context, const rnnserve_weights& weights,
                                 cudnnRNNAlgo_t algo, uint32_t flags);

  rnnserve_cell cell_;
  int run_type_;
  std::unique_ptr<Plan> packed_;   // STANDARD, rows of unequal length
  std::unique_ptr<Plan> uniform_;  // STANDARD, [T, N, *]
  std::unique_ptr<Plan> small_h_;  // null where cuDNN refuses it for this cell
};

}  // namespace rnnserve::cuda
