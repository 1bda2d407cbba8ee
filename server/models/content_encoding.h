// SPDX-License-Identifier: Apache-2.0
// A model's content as bytes, for hashes: canonical operator and weight tensors in the order W, R, B, P. Everything of
// variable size is preceded by its size, so that no two contents give the same bytes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/op/op_spec.h"

namespace rnnserve {

static_assert(std::endian::native == std::endian::little, "numbers are hashed as they lie in memory");

// `add(data, size)` gets the bytes, piece by piece.
template <typename Add>
void EncodeContent(const OpSpec& spec, std::span<const NamedTensor> weights, Add add) {
  const auto number = [&](int64_t value) { add(&value, sizeof value); };
  const auto bytes = [&](const void* data, size_t size) {
    number(static_cast<int64_t>(size));
    if (size > 0) add(data, size);
  };
  const auto text = [&](std::string_view value) { bytes(value.data(), value.size()); };
  text("rnnserve model 1");  // another encoding gets another number
  text(spec.CanonicalText());
  for (const std::string_view name : {"W", "R", "B", "P"}) {
    const auto found = std::ranges::find(weights, name, &NamedTensor::name);
    if (found == weights.end()) continue;
    const TensorView& tensor = found->tensor;
    text(name);
    number(static_cast<int64_t>(tensor.type));
    number(static_cast<int64_t>(tensor.shape.size()));
    for (const int64_t dim : tensor.shape) number(dim);
    bytes(tensor.data.data(), tensor.data.size());
  }
}

}  // namespace rnnserve
