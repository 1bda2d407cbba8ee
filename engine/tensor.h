// SPDX-License-Identifier: Apache-2.0
// A view of a tensor, without ownership. Row-major, packed, little-endian; the data need not be aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/container/inlined_vector.h"
#include "engine/data_type.h"

namespace rnnserve {

// Every request makes a dozen: up to four dimensions need no memory of their own.
using Shape = absl::InlinedVector<int64_t, 4>;

struct TensorView {
  DataType type = DataType::kFloat;
  Shape shape;
  std::span<const std::byte> data;  // NumElements(shape) * ByteSize(type) bytes
};

struct NamedTensor {
  std::string name;
  TensorView tensor;
};

// "[2, 3]".
std::string ShapeString(std::span<const int64_t> shape);

// Product of the dimensions; nullopt if a dimension is negative or the product of the *non-zero* dimensions exceeds
// 2^63 - 1 (so that no partial product overflows either, whatever the order).
std::optional<int64_t> NumElements(std::span<const int64_t> shape);

// NumElements * ByteSize(type); nullopt as if the element size were one more dimension.
std::optional<int64_t> NumBytes(DataType type, std::span<const int64_t> shape);

}  // namespace rnnserve
