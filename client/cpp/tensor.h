// SPDX-License-Identifier: Apache-2.0
// Tensors as the client library takes and gives them: a name, a type, a shape and packed row-major little-endian bytes.
//
//   Tensor x = MakeTensor("X", {3, 1, 2}, std::vector<float>{1, 2, 3, 4, 5, 6});
//   std::vector<double> y = ValuesOf(result.outputs[0]);
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data_type.h"
#include "engine/tensor.h"

namespace rnnserve::client {

struct Tensor {
  std::string name;
  DataType type = DataType::kFloat;
  Shape shape;
  std::string bytes;  // NumBytes(type, shape) of them; the server refuses any other count
};

Tensor MakeTensor(std::string name, Shape shape, std::span<const float> values);
Tensor MakeTensor(std::string name, Shape shape, std::span<const double> values);
Tensor MakeTensor(std::string name, Shape shape, std::span<const int32_t> values);
Tensor MakeTensor(std::string name, Shape shape, std::span<const int64_t> values);

// The elements of a tensor of any type, widened to double (exact but for int64 beyond 2^53). As many as the bytes hold.
std::vector<double> ValuesOf(const Tensor& tensor);

// The tensor with elements of another floating type, rounded to nearest even. Refuses integers on either side.
absl::StatusOr<Tensor> ConvertTensor(Tensor tensor, DataType type);

}  // namespace rnnserve::client
