// SPDX-License-Identifier: Apache-2.0
// A model's content as bytes, for hashes: of each layer the canonical operator and weight tensors in the order W, R, B,
// P. Everything of variable size is preceded by its size, so that no two contents give the same bytes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/op/stack.h"

namespace rnnserve {

static_assert(std::endian::native == std::endian::little, "numbers are hashed as they lie in memory");

// Pieces of bytes for `add(data, size)`.
template <typename Add>
class ContentEncoder {
 public:
  explicit ContentEncoder(Add add) : add_(add) {}

  void Number(int64_t value) { add_(&value, sizeof value); }
  void Bytes(const void* data, size_t size) {
    Number(static_cast<int64_t>(size));
    if (size > 0) add_(data, size);
  }
  void Text(std::string_view value) { Bytes(value.data(), value.size()); }
  void Layer(const OpSpec& spec, std::span<const NamedTensor> weights) {
    Text("rnnserve model 1");  // another encoding gets another number
    Text(spec.CanonicalText());
    for (const std::string_view name : {"W", "R", "B", "P"}) {
      const auto found = std::ranges::find(weights, name, &NamedTensor::name);
      if (found == weights.end()) continue;
      const TensorView& tensor = found->tensor;
      Text(name);
      Number(static_cast<int64_t>(tensor.type));
      Number(static_cast<int64_t>(tensor.shape.size()));
      for (const int64_t dim : tensor.shape) Number(dim);
      Bytes(tensor.data.data(), tensor.data.size());
    }
  }
  void Pipeline(const rnnserve::Pipeline& pipeline) {
    Text(pipeline.CanonicalText());
    for (const MapUse& use : pipeline.maps) Numbers(use);
    Numbers(pipeline.rows);
    Numbers(pipeline.records);
  }

 private:
  void Numbers(const MapUse& use) {
    if (use.map == nullptr) return;
    for (const MapOp& op : use.map->ops) {
      for (const MapNumbersPtr& numbers : {op.a, op.b}) {
        if (numbers == nullptr) continue;
        Bytes(numbers->f32.data(), numbers->f32.size() * sizeof(float));
        Bytes(numbers->f64.data(), numbers->f64.size() * sizeof(double));
      }
      Bytes(op.places.data(), op.places.size() * sizeof(int64_t));
    }
  }

  Add add_;
};

// `add(data, size)` gets the bytes, piece by piece. One plain operator is encoded as it was before there were stacks,
// so that fingerprints last.
template <typename Add>
void EncodeContent(const StackSpec& stack, std::span<const LayerView> layers, Add add) {
  ContentEncoder<Add> encoder(add);
  if (stack.pipeline != nullptr) {
    encoder.Text("rnnserve pipeline 1");
    encoder.Pipeline(*stack.pipeline);
    encoder.Number(static_cast<int64_t>(layers.size()));
  } else if (stack.file_names != nullptr) {
    encoder.Text("rnnserve file names 1");
    encoder.Text(stack.file_names->CanonicalText());
    encoder.Number(stack.batch_first);
    encoder.Number(static_cast<int64_t>(layers.size()));
  } else if (layers.size() > 1 || stack.batch_first) {
    encoder.Text("rnnserve stack 1");
    encoder.Number(stack.batch_first);
    encoder.Number(static_cast<int64_t>(layers.size()));
  }
  for (size_t k = 0; k < layers.size(); ++k) encoder.Layer(stack.layers[k], layers[k].tensors);
}

}  // namespace rnnserve
