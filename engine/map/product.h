// SPDX-License-Identifier: Apache-2.0
// Rows times a matrix that stays: y = activation(x * w + bias). In float32 by oneDNN's matmul where the build has it,
// which takes bias and activation along; else, and in float64, by plain loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/map/map.h"

namespace rnnserve::map {

// Immutable; safe from many threads. `scratch` belongs to one call.
template <typename T>
class Product {
 public:
  virtual ~Product() = default;
  // x is [rows, inner], y [rows, columns]; both on cache lines. `scratch` has scratch_bytes() bytes.
  virtual void Run(const T* x, T* y, int64_t rows, std::byte* scratch) const = 0;
  virtual size_t scratch_bytes() const { return 0; }
  // What it holds besides the map's own numbers.
  virtual int64_t packed_bytes() const { return 0; }
};

// `op` is a kProduct, which outlives this. `one_order`: a row gives the same bits whatever rows are beside it.
template <typename T>
std::unique_ptr<Product<T>> MakeProduct(const MapOp& op, bool one_order);

// Null: the build has no oneDNN, or it cannot.
std::unique_ptr<Product<float>> MakeOneDnnProduct(const MapOp& op, bool one_order);

}  // namespace rnnserve::map
