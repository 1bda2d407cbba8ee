// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/support/owned_tensor.h"

#include <cstring>
#include <utility>

#include "engine/float16.h"

namespace rnnserve {

std::vector<double> OwnedTensor::Values() const {
  const size_t element = ByteSize(type);
  std::vector<double> values(bytes.size() / element);
  if (IsFloating(type)) {
    ConvertElements(type, bytes.data(), DataType::kDouble, reinterpret_cast<std::byte*>(values.data()), values.size());
    return values;
  }
  for (size_t k = 0; k < values.size(); ++k) {
    int32_t narrow = 0;
    int64_t wide = 0;
    if (type == DataType::kInt32) {
      std::memcpy(&narrow, bytes.data() + k * element, element);
      wide = narrow;
    } else {
      std::memcpy(&wide, bytes.data() + k * element, element);
    }
    values[k] = static_cast<double>(wide);
  }
  return values;
}

OwnedTensor MakeTensor(std::string name, DataType type, Shape shape, const std::vector<double>& values) {
  const size_t element = ByteSize(type);
  OwnedTensor tensor{std::move(name), type, std::move(shape), std::vector<std::byte>(values.size() * element)};
  if (IsFloating(type)) {
    ConvertElements(DataType::kDouble, reinterpret_cast<const std::byte*>(values.data()), type, tensor.bytes.data(),
                    values.size());
    return tensor;
  }
  for (size_t k = 0; k < values.size(); ++k) {
    const auto wide = static_cast<int64_t>(values[k]);
    const auto narrow = static_cast<int32_t>(wide);
    std::memcpy(tensor.bytes.data() + k * element,
                type == DataType::kInt32 ? static_cast<const void*>(&narrow) : static_cast<const void*>(&wide),
                element);
  }
  return tensor;
}

OwnedTensor FilledTensor(std::string name, DataType type, Shape shape, double value) {
  const auto count = static_cast<size_t>(NumElements(shape).value());
  return MakeTensor(std::move(name), type, std::move(shape), std::vector<double>(count, value));
}

std::vector<NamedTensor> Views(std::span<const OwnedTensor> tensors) {
  std::vector<NamedTensor> views;
  for (const OwnedTensor& tensor : tensors) views.push_back(tensor.View());
  return views;
}

OwnedTensor* FindTensor(std::vector<OwnedTensor>& tensors, const std::string& name) {
  for (OwnedTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

const OwnedTensor* FindTensor(std::span<const OwnedTensor> tensors, const std::string& name) {
  for (const OwnedTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

OwnedTensor Transposed(const OwnedTensor& tensor, const std::vector<size_t>& order) {
  OwnedTensor result{tensor.name, tensor.type, {}, std::vector<std::byte>(tensor.bytes.size())};
  for (size_t axis : order) result.shape.push_back(tensor.shape[axis]);
  const size_t element = ByteSize(tensor.type);
  std::vector<int64_t> index(order.size(), 0);  // of the result
  for (size_t k = 0; k < tensor.bytes.size() / element; ++k) {
    std::vector<int64_t> source_index(order.size());
    for (size_t a = 0; a < order.size(); ++a) source_index[order[a]] = index[a];
    int64_t source = 0;
    for (size_t a = 0; a < order.size(); ++a) source = source * tensor.shape[a] + source_index[a];
    std::memcpy(result.bytes.data() + k * element, tensor.bytes.data() + static_cast<size_t>(source) * element,
                element);
    for (size_t a = order.size(); a-- > 0;) {
      if (++index[a] < result.shape[a]) break;
      index[a] = 0;
    }
  }
  return result;
}

}  // namespace rnnserve
