// SPDX-License-Identifier: Apache-2.0
// Transpose, Slice, Concat, Gather, Expand, ConstantOfShape: elements in another order or choice.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "engine/op/wording.h"
#include "onnx_file/fold_call.h"
#include "onnx_file/node.h"
#include "onnx_file/strided_copy.h"

namespace rnnserve {
namespace {

// From one index of each axis to the next, in bytes. Harmless where the tensor has no elements.
std::vector<int64_t> Strides(const TensorView& tensor) {
  std::vector<int64_t> strides(tensor.shape.size());
  if (tensor.data.empty()) return strides;
  auto stride = static_cast<int64_t>(ByteSize(tensor.type));
  for (size_t axis = strides.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= tensor.shape[axis];
  }
  return strides;
}

// Product of axes [first, last). Only for tensors with elements: it cannot overflow then.
int64_t Product(const Shape& shape, size_t first, size_t last) {
  return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(first),
                         shape.begin() + static_cast<std::ptrdiff_t>(last), int64_t{1}, std::multiplies<>());
}

// What a Slice takes of one axis.
struct Range {
  int64_t start, step, count;
};

// Out-of-range values are clamped as the operator says; `size` is at least 1. The step is clamped too, so that nothing
// overflows: a longer one takes one element as well.
Range RangeOf(int64_t start, int64_t end, int64_t step, int64_t size) {
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? size : size - 1;
  const auto clamped = [&](int64_t index) { return std::clamp(index < 0 ? index + size : index, low, high); };
  start = std::max<int64_t>(clamped(start), 0);
  end = clamped(end);
  step = std::clamp(step, -size, size);
  const int64_t span = step > 0 ? end - start : start - end;
  return {start, step, span <= 0 ? 0 : (span - 1) / std::abs(step) + 1};
}

}  // namespace

absl::StatusOr<OnnxTensor> FoldTranspose(const FoldCall& call) {
  const auto input = call.Input(0);
  if (!input.ok()) return input.status();
  const auto given = call.Ints("perm", std::numeric_limits<size_t>::max());
  if (!given.ok()) return given.status();
  const TensorView& from = (*input)->view;
  const size_t rank = from.shape.size();
  std::vector<int64_t> perm(rank);
  std::iota(perm.rbegin(), perm.rend(), 0);
  if (*given) {
    std::vector<int64_t> sorted = **given;
    std::ranges::sort(sorted);
    std::ranges::reverse(sorted);
    if (sorted != perm) return FoldError(absl::StrCat("has a perm that is no order of ", rank, " axes"));
    perm = **given;
  }
  return Permuted(**input, perm, call.bytes_left);
}

absl::StatusOr<OnnxTensor> Permuted(const OnnxTensor& tensor, const std::vector<int64_t>& perm, int64_t& bytes_left) {
  const TensorView& from = tensor.view;
  const std::vector<int64_t> strides = Strides(from);
  Shape shape;
  std::vector<int64_t> walk;
  for (const int64_t axis : perm) {
    shape.push_back(from.shape[static_cast<size_t>(axis)]);
    walk.push_back(strides[static_cast<size_t>(axis)]);
  }
  absl::StatusOr<NewTensor> made = AllocateTensor(from.type, shape, bytes_left);
  if (!made.ok()) return made.status();
  CopyStrided(from.data.data(), shape, walk, ByteSize(from.type), made->data);
  return std::move(made->tensor);
}

absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b) {
  const Shape &longer = a.size() < b.size() ? b : a, &shorter = a.size() < b.size() ? a : b;
  Shape shape = longer;
  for (size_t k = 0; k < shorter.size(); ++k) {
    int64_t& axis = shape[longer.size() - shorter.size() + k];
    if (axis == 1) axis = shorter[k];
    if (shorter[k] != 1 && shorter[k] != axis) {
      return FoldError(absl::StrCat("joins the shapes ", ShortShape(a), " and ", ShortShape(b)));
    }
  }
  return shape;
}

absl::StatusOr<OnnxTensor> Broadcast(const OnnxTensor& tensor, const Shape& shape, int64_t& bytes_left) {
  const TensorView& from = tensor.view;
  if (from.shape == shape) return tensor;
  std::vector<int64_t> walk = Strides(from);
  for (size_t axis = 0; axis < walk.size(); ++axis) {
    if (from.shape[axis] == 1) walk[axis] = 0;
  }
  walk.insert(walk.begin(), shape.size() - walk.size(), 0);
  absl::StatusOr<NewTensor> made = AllocateTensor(from.type, shape, bytes_left);
  if (!made.ok()) return made.status();
  CopyStrided(from.data.data(), shape, walk, ByteSize(from.type), made->data);
  return std::move(made->tensor);
}

absl::StatusOr<OnnxTensor> FoldExpand(const FoldCall& call) {
  const auto input = call.Input(0);
  if (!input.ok()) return input.status();
  const auto wanted = call.Ints("shape", 1);
  if (!wanted.ok()) return wanted.status();
  if (!*wanted) return FoldError("has no shape");
  const absl::StatusOr<Shape> shape = BroadcastShape((*input)->view.shape, Shape((*wanted)->begin(), (*wanted)->end()));
  if (!shape.ok()) return shape.status();
  return Broadcast(**input, *shape, call.bytes_left);
}

absl::StatusOr<OnnxTensor> FoldConstantOfShape(const FoldCall& call) {
  const auto shape = call.Ints("shape", 0);
  if (!shape.ok()) return shape.status();
  const float zero = 0;
  OnnxTensor number{{DataType::kFloat, {}, std::as_bytes(std::span(&zero, 1))}, nullptr};
  if (const onnx::AttributeProto* value = FindAttribute(call.node, "value")) {
    absl::StatusOr<OnnxTensor> stored = ReadOnnxTensor(value->t(), nullptr, sizeof(double));
    if (!stored.ok()) return stored;
    number = *std::move(stored);
    if (NumElements(number.view.shape) != 1) return FoldError("has a value that is not one number");
    number.view.shape.clear();
  }
  const std::vector<int64_t> axes = shape->value_or(std::vector<int64_t>());
  return Broadcast(number, Shape(axes.begin(), axes.end()), call.bytes_left);
}

absl::StatusOr<OnnxTensor> FoldSlice(const FoldCall& call) {
  const auto input = call.Input(0);
  if (!input.ok()) return input.status();
  const TensorView& from = (*input)->view;
  std::array<std::vector<int64_t>, 4> lists;  // starts, ends, axes, steps
  constexpr std::string_view kNames[] = {"starts", "ends", "axes", "steps"};
  for (size_t k = 0; k < lists.size(); ++k) {
    auto list = call.Ints(kNames[k], k + 1);
    if (!list.ok()) return list.status();
    if (!*list && k < 2) return FoldError(absl::StrCat("has no ", View(kNames[k])));
    lists[k] = *list ? **list : std::vector<int64_t>(lists[0].size(), 1);
    if (!*list && k == 2) std::iota(lists[k].begin(), lists[k].end(), 0);
    if (lists[k].size() != lists[0].size()) {
      return FoldError(absl::StrCat("has ", lists[0].size(), " starts, but ", lists[k].size(), " ", View(kNames[k])));
    }
  }
  Shape shape = from.shape;
  std::vector<int64_t> walk = Strides(from);
  int64_t offset = 0;
  std::array<bool, kMaxRank> seen = {};
  for (size_t k = 0; k < lists[0].size(); ++k) {
    const absl::StatusOr<size_t> axis = Axis(lists[2][k], shape.size());
    if (!axis.ok()) return axis.status();
    if (std::exchange(seen[*axis], true)) return FoldError(absl::StrCat("names axis ", lists[2][k], " twice"));
    if (lists[3][k] == 0) return FoldError("has a step of 0");
    if (shape[*axis] == 0) continue;
    const Range range = RangeOf(lists[0][k], lists[1][k], lists[3][k], shape[*axis]);
    shape[*axis] = range.count;
    offset += range.count == 0 ? 0 : range.start * walk[*axis];
    walk[*axis] *= range.step;
  }
  absl::StatusOr<NewTensor> made = AllocateTensor(from.type, shape, call.bytes_left);
  if (!made.ok()) return made.status();
  CopyStrided(from.data.data() + offset, shape, walk, ByteSize(from.type), made->data);
  return std::move(made->tensor);
}

absl::StatusOr<OnnxTensor> FoldConcat(const FoldCall& call) {
  const auto first = call.Input(0);
  if (!first.ok()) return first.status();
  Shape shape = (*first)->view.shape;
  const DataType type = (*first)->view.type;
  const absl::StatusOr<size_t> axis = Axis(call.Int("axis", 1), shape.size());
  if (!axis.ok()) return axis.status();
  std::vector<const TensorView*> parts;  // those with elements
  shape[*axis] = 0;
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    const auto input = call.Input(k);
    if (!input.ok()) return input.status();
    const TensorView& part = (*input)->view;
    Shape others = part.shape;
    if (others.size() == shape.size()) others[*axis] = shape[*axis];
    if (part.type != type || others != shape) {
      return FoldError(absl::StrCat("joins shapes ", ShortShape((*first)->view.shape), " and ", ShortShape(part.shape),
                                    " of types ", OnnxTypeName(type), " and ", OnnxTypeName(part.type), " along axis ",
                                    *axis, "; all other axes and the types must be equal"));
    }
    if (__builtin_add_overflow(shape[*axis], part.shape[*axis], &shape[*axis])) {
      return FoldError("has more elements than can be counted");
    }
    if (!part.data.empty()) parts.push_back(&part);
  }
  absl::StatusOr<NewTensor> made = AllocateTensor(type, shape, call.bytes_left);
  if (!made.ok() || parts.empty())
    return made.ok() ? absl::StatusOr<OnnxTensor>(std::move(made->tensor)) : made.status();
  const int64_t blocks = Product(shape, 0, *axis);
  std::byte* target = made->data;
  for (int64_t block = 0; block < blocks; ++block) {
    for (const TensorView* part : parts) {
      const size_t bytes = part->data.size() / static_cast<size_t>(blocks);
      std::memcpy(target, part->data.data() + static_cast<size_t>(block) * bytes, bytes);
      target += bytes;
    }
  }
  return std::move(made->tensor);
}

absl::StatusOr<OnnxTensor> FoldGather(const FoldCall& call) {
  const auto input = call.Input(0);
  if (!input.ok()) return input.status();
  const auto chosen = call.Input(1);
  if (!chosen.ok()) return chosen.status();
  const TensorView& from = (*input)->view;
  const TensorView& indices = (*chosen)->view;
  if (IsFloating(indices.type)) return FoldError("has indices that are no integers");
  const absl::StatusOr<size_t> axis = Axis(call.Int("axis", 0), from.shape.size());
  if (!axis.ok()) return axis.status();
  if (from.shape.size() - 1 + indices.shape.size() > kMaxRank) return FoldError("gives more than 8 axes");
  const int64_t size = from.shape[*axis];

  Shape shape = from.shape;
  const auto at = shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(*axis));
  shape.insert(at, indices.shape.begin(), indices.shape.end());
  absl::StatusOr<NewTensor> made = AllocateTensor(from.type, shape, call.bytes_left);
  if (!made.ok() || made->tensor.view.data.empty()) {
    return made.ok() ? absl::StatusOr<OnnxTensor>(std::move(made->tensor)) : made.status();
  }
  if (from.data.empty()) return FoldError("chooses from a tensor without elements");
  const int64_t blocks = Product(from.shape, 0, *axis);
  const size_t bytes = from.data.size() / static_cast<size_t>(blocks * size);
  const auto count = static_cast<int64_t>(indices.data.size() / ByteSize(indices.type));
  std::byte* target = made->data;
  for (int64_t block = 0; block < blocks; ++block) {
    for (int64_t k = 0; k < count; ++k) {
      int64_t index = IntAt(indices, k);
      if (index < -size || index >= size) {
        return FoldError(absl::StrCat("takes index ", index, " of an axis of ", size));
      }
      if (index < 0) index += size;
      std::memcpy(target, from.data.data() + static_cast<size_t>(block * size + index) * bytes, bytes);
      target += bytes;
    }
  }
  return std::move(made->tensor);
}

}  // namespace rnnserve
