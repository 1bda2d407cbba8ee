// SPDX-License-Identifier: Apache-2.0
// DequantizeLinear of stored weights: (x - zero point) * scale, for the whole tensor, along one axis, or by blocks of
// it.
#include <array>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/float16.h"
#include "engine/op/wording.h"
#include "onnx_file/fold_call.h"

namespace rnnserve {
namespace {

// How scales lie beside x [outer, size, inner].
struct Scales {
  int64_t size = 1;
  int64_t inner = 1;
  int64_t block = 1;      // places of x that share one
  int64_t of_axis = 1;    // scales along the axis
  bool is_spread = true;  // one for all of outer and inner

  int64_t PlaceFor(int64_t k) const {
    const int64_t along = k / inner % size / block;
    return is_spread ? along : (k / inner / size * of_axis + along) * inner + k % inner;
  }
};

absl::StatusOr<Scales> ScalesOf(const FoldCall& call, const Shape& x, const Shape& scale) {
  Scales made;
  if (NumElements(scale) == 1) return made;
  const absl::StatusOr<size_t> axis = Axis(call.Int("axis", 1), x.size());
  if (!axis.ok()) return axis.status();
  made.size = x[*axis];
  for (size_t k = *axis + 1; k < x.size(); ++k) made.inner *= x[k];
  made.of_axis = made.size;
  Shape wanted = {made.size};
  if (const int64_t block = call.Int("block_size", 0); block > 0) {
    made.block = block;
    made.of_axis = made.size / block + (made.size % block == 0 ? 0 : 1);
    made.is_spread = false;
    wanted = x;
    wanted[*axis] = made.of_axis;
  }
  if (scale == wanted) return made;
  return FoldError(absl::StrCat("has scales of the shape ", ShortShape(scale), ", but ", ShortShape(wanted),
                                " is needed beside ", ShortShape(x)));
}

}  // namespace

absl::StatusOr<OnnxTensor> FoldDequantize(const FoldCall& call) {
  const auto input = call.Input(0), scale = call.Input(1);
  if (!input.ok()) return input.status();
  if (!scale.ok()) return scale.status();
  const OnnxTensor* const zero = call.inputs.size() > 2 ? call.inputs[2] : nullptr;
  const TensorView &x = (*input)->view, &by = (*scale)->view;
  if (IsFloating(x.type) || !IsFloating(by.type) || (zero != nullptr && IsFloating(zero->view.type))) {
    return FoldError("needs integers, a scale of a floating type and integers as zero points");
  }
  if (zero != nullptr && NumElements(zero->view.shape) != NumElements(by.shape)) {
    return FoldError("has not as many zero points as scales");
  }
  if (x.data.empty()) return FoldError("has no elements");
  const absl::StatusOr<Scales> scales = ScalesOf(call, x.shape, by.shape);
  if (!scales.ok()) return scales.status();
  absl::StatusOr<NewTensor> made = AllocateTensor(by.type, x.shape, call.bytes_left);
  if (!made.ok()) return made.status();
  const auto elements = static_cast<int64_t>(x.data.size() / ByteSize(x.type)),
             size = static_cast<int64_t>(ByteSize(by.type));
  for (int64_t k = 0; k < elements; ++k) {
    const int64_t place = scales->PlaceFor(k);
    float factor = 0;
    ConvertElements(by.type, by.data.data() + place * size, DataType::kFloat, reinterpret_cast<std::byte*>(&factor), 1);
    const int64_t from = zero == nullptr ? 0 : IntAt(zero->view, place);
    const float number = static_cast<float>(IntAt(x, k) - from) * factor;
    ConvertElements(DataType::kFloat, reinterpret_cast<const std::byte*>(&number), by.type, made->data + k * size, 1);
  }
  return std::move(made->tensor);
}

}  // namespace rnnserve
