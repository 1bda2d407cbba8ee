// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/tensor.h"

#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "engine/float16.h"
#include "engine/op/wording.h"

namespace rnnserve::client {
namespace {

static_assert(std::endian::native == std::endian::little, "bytes of tensors are copied as they are");

template <typename T>
Tensor Make(std::string name, DataType type, Shape shape, std::span<const T> values) {
  Tensor tensor{std::move(name), type, std::move(shape), std::string(values.size_bytes(), '\0')};
  if (!values.empty()) std::memcpy(tensor.bytes.data(), values.data(), values.size_bytes());
  return tensor;
}

template <typename T>
std::vector<double> Widen(const Tensor& tensor, double (*widen)(T)) {
  std::vector<double> values(tensor.bytes.size() / sizeof(T));
  for (size_t k = 0; k < values.size(); ++k) {
    T element;
    std::memcpy(&element, tensor.bytes.data() + k * sizeof(T), sizeof(T));
    values[k] = widen(element);
  }
  return values;
}

}  // namespace

Tensor MakeTensor(std::string name, Shape shape, std::span<const float> values) {
  return Make(std::move(name), DataType::kFloat, std::move(shape), values);
}
Tensor MakeTensor(std::string name, Shape shape, std::span<const double> values) {
  return Make(std::move(name), DataType::kDouble, std::move(shape), values);
}
Tensor MakeTensor(std::string name, Shape shape, std::span<const int32_t> values) {
  return Make(std::move(name), DataType::kInt32, std::move(shape), values);
}
Tensor MakeTensor(std::string name, Shape shape, std::span<const int64_t> values) {
  return Make(std::move(name), DataType::kInt64, std::move(shape), values);
}

std::vector<double> ValuesOf(const Tensor& tensor) {
  switch (tensor.type) {
    case DataType::kFloat:
      return Widen<float>(tensor, [](float v) { return static_cast<double>(v); });
    case DataType::kDouble:
      return Widen<double>(tensor, [](double v) { return v; });
    case DataType::kInt32:
      return Widen<int32_t>(tensor, [](int32_t v) { return static_cast<double>(v); });
    case DataType::kInt64:
      return Widen<int64_t>(tensor, [](int64_t v) { return static_cast<double>(v); });
    case DataType::kFloat16:
      return Widen<uint16_t>(tensor, [](uint16_t v) { return static_cast<double>(FloatFromHalf(v)); });
    case DataType::kBFloat16:
      return Widen<uint16_t>(tensor, [](uint16_t v) { return static_cast<double>(FloatFromBFloat16(v)); });
  }
  return {};
}

absl::StatusOr<Tensor> ConvertTensor(Tensor tensor, DataType type) {
  if (tensor.type == type) return tensor;
  if (!IsFloating(tensor.type) || !IsFloating(type)) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name, " of ", View(DataTypeName(tensor.type)),
                                                   " cannot become ", View(DataTypeName(type)),
                                                   ": only floating types are converted into each other"));
  }
  const size_t count = tensor.bytes.size() / ByteSize(tensor.type);
  std::string bytes(count * ByteSize(type), '\0');
  ConvertElements(tensor.type, reinterpret_cast<const std::byte*>(tensor.bytes.data()), type,
                  reinterpret_cast<std::byte*>(bytes.data()), count);
  tensor.type = type;
  tensor.bytes = std::move(bytes);
  return tensor;
}

}  // namespace rnnserve::client
