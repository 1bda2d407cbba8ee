// SPDX-License-Identifier: Apache-2.0
// Element types of tensors, numbered as ONNX TensorProto.DataType, and the two types that engines compute in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rnnserve {

enum class DataType : int32_t {
  kFloat = 1,
  kInt32 = 6,
  kInt64 = 7,
  kFloat16 = 10,
  kDouble = 11,
  kBFloat16 = 16,
};

// Bytes of one element; 0 for a value that is no DataType.
constexpr size_t ByteSize(DataType type) {
  switch (type) {
    case DataType::kFloat16:
    case DataType::kBFloat16:
      return 2;
    case DataType::kFloat:
    case DataType::kInt32:
      return 4;
    case DataType::kInt64:
    case DataType::kDouble:
      return 8;
  }
  return 0;
}

constexpr bool IsFloating(DataType type) {
  return type == DataType::kFloat || type == DataType::kDouble || type == DataType::kFloat16 ||
         type == DataType::kBFloat16;
}

// What engines keep states and weights in: double for double, float for every other floating type.
constexpr DataType ComputeType(DataType type) {
  return type == DataType::kDouble ? DataType::kDouble : DataType::kFloat;
}

// "float32", "int32", "int64", "float16", "float64", "bfloat16".
std::string_view DataTypeName(DataType type);

}  // namespace rnnserve
