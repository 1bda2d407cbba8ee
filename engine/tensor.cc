// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rnnserve {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

}  // namespace

std::string ShapeString(std::span<const int64_t> shape) { return absl::StrCat("[", absl::StrJoin(shape, ", "), "]"); }

std::optional<int64_t> NumElements(std::span<const int64_t> shape) {
  int64_t nonzero_product = 1;
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) {
      empty = true;
      continue;
    }
    if (nonzero_product > kMax / dim) return std::nullopt;
    nonzero_product *= dim;
  }
  return empty ? 0 : nonzero_product;
}

std::optional<int64_t> NumBytes(DataType type, std::span<const int64_t> shape) {
  Shape with_bytes(shape.begin(), shape.end());
  with_bytes.push_back(static_cast<int64_t>(ByteSize(type)));
  return NumElements(with_bytes);
}

}  // namespace rnnserve
