// SPDX-License-Identifier: Apache-2.0
// Matrix products by cuBLASLt, on one context's stream. What cuBLASLt's heuristic picks for a shape is remembered:
// asking costs as much as a small product itself.
//
//   products.Run({.rows = 16, .width = 512, .inner = 128, .out_stride = 512, ...}, weights, in, out);
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>

#include "engine/cuda/device.h"

namespace rnnserve::cuda {

// out[rows, width] = in[rows, inner] * weights[width, inner]^T, or added to what is there; all row-major, rows of `out`
// out_stride elements apart. No size is 0.
struct ProductShape {
  int64_t rows;
  int64_t width;
  int64_t inner;
  int64_t out_stride;
  bool adds;
  bool is_double;
  bool tf32;  // float only: inputs may be rounded to TF32
  auto operator<=>(const ProductShape&) const = default;
};

// The power of two up to 256 that `address` is a multiple of: what the heuristic must know of a pointer.
uint32_t AlignmentOf(const void* address);

class Products {
 public:
  Products(Device& device, cudaStream_t stream);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // Asynchronous on the stream.
  void Run(const ProductShape& shape, const void* weights, const void* in, void* out);

 private:
  struct Key {
    ProductShape shape;
    uint32_t weights_alignment, in_alignment, out_alignment;
    auto operator<=>(const Key&) const = default;
  };
  // Descriptors and algorithm of one shape.
  struct Plan {
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t weights, in, out;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace;
  };
  Plan& PlanOf(const Key& key);

  cudaStream_t stream_;
  cublasLtHandle_t handle_ = nullptr;
  DeviceBuffer workspace_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace rnnserve::cuda
