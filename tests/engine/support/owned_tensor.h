// SPDX-License-Identifier: Apache-2.0
// Tensors of tests: built from doubles, rounded to their type, read back as doubles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/tensor.h"

namespace rnnserve {

struct OwnedTensor {
  std::string name;
  DataType type = DataType::kFloat;
  Shape shape;
  std::vector<std::byte> bytes;

  NamedTensor View() const { return {name, {type, shape, bytes}}; }
  std::vector<double> Values() const;
};

// `values` as many as the shape has elements; integers for int32 and int64.
OwnedTensor MakeTensor(std::string name, DataType type, Shape shape, const std::vector<double>& values);
// All elements `value`.
OwnedTensor FilledTensor(std::string name, DataType type, Shape shape, double value);

// Views into `tensors`, which must outlive them.
std::vector<NamedTensor> Views(std::span<const OwnedTensor> tensors);

OwnedTensor* FindTensor(std::vector<OwnedTensor>& tensors, const std::string& name);
const OwnedTensor* FindTensor(std::span<const OwnedTensor> tensors, const std::string& name);

// Output axis k is input axis order[k].
OwnedTensor Transposed(const OwnedTensor& tensor, const std::vector<size_t>& order);

}  // namespace rnnserve
