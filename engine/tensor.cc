// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rnnserve {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// nullopt if a dimension is negative or the product does not fit.
std::optional<int64_t> NonzeroProduct(std::span<const int64_t> shape) {
  int64_t product = 1;
  for (const int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) continue;
    if (product > kMax / dim) return std::nullopt;
    product *= dim;
  }
  return product;
}

bool IsEmpty(std::span<const int64_t> shape) { return std::ranges::find(shape, 0) != shape.end(); }

}  // namespace

std::string ShapeString(std::span<const int64_t> shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

std::optional<int64_t> NumElements(std::span<const int64_t> shape) {
  const std::optional<int64_t> nonzero = NonzeroProduct(shape);
  return nonzero && IsEmpty(shape) ? 0 : nonzero;
}

std::optional<int64_t> NumBytes(DataType type, std::span<const int64_t> shape) {
  const std::optional<int64_t> nonzero = NonzeroProduct(shape);
  const auto size = static_cast<int64_t>(ByteSize(type));
  if (!nonzero || (size > 0 && *nonzero > kMax / size)) return std::nullopt;
  return IsEmpty(shape) ? 0 : *nonzero * size;
}

}  // namespace rnnserve
