// SPDX-License-Identifier: Apache-2.0
// Arithmetic, functions and reductions of what the file fixes, by the functions of maps: weight norms, scaled tables,
// computed bounds.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <set>
#include <span>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/float16.h"
#include "engine/map/functions.h"
#include "engine/op/wording.h"
#include "onnx_file/fold_call.h"
#include "onnx_file/function_of.h"

namespace rnnserve {
namespace {

constexpr size_t kBlock = 512;
constexpr double kExactIntegers = 9007199254740992.0;  // 2^53

template <typename T>
constexpr DataType kTypeOf = std::is_same_v<T, float> ? DataType::kFloat : DataType::kDouble;

// `count` elements from `at` on.
template <typename T>
void ReadNumbers(const TensorView& from, size_t at, size_t count, T* to) {
  if (IsFloating(from.type)) {
    const std::byte* source = from.data.data() + at * ByteSize(from.type);
    return ConvertElements(from.type, source, kTypeOf<T>, reinterpret_cast<std::byte*>(to), count);
  }
  for (size_t k = 0; k < count; ++k) to[k] = static_cast<T>(IntAt(from, static_cast<int64_t>(at + k)));
}

// Integers are cut off towards zero.
template <typename T>
absl::Status WriteNumbers(const T* from, size_t count, DataType type, std::byte* to) {
  if (IsFloating(type)) {
    ConvertElements(kTypeOf<T>, reinterpret_cast<const std::byte*>(from), type, to, count);
    return absl::OkStatus();
  }
  const double end = type == DataType::kInt32 ? 2147483648.0 : kExactIntegers;
  for (size_t k = 0; k < count; ++k) {
    if (!(std::abs(static_cast<double>(from[k])) < end)) return FoldError("computes integers that are too large");
    const auto wide = static_cast<int64_t>(from[k]);
    const auto narrow = static_cast<int32_t>(wide);
    if (type == DataType::kInt32) std::memcpy(to + k * 4, &narrow, 4);
    if (type == DataType::kInt64) std::memcpy(to + k * 8, &wide, 8);
  }
  return absl::OkStatus();
}

// Of one tensor, or of two of one shape.
template <typename T>
absl::StatusOr<OnnxTensor> ComputeEach(MapFunction function, std::span<const OnnxTensor> from, int64_t& bytes_left) {
  const TensorView& first = from[0].view;
  absl::StatusOr<NewTensor> made = AllocateTensor(first.type, first.shape, bytes_left);
  if (!made.ok()) return made.status();
  const size_t size = ByteSize(first.type), elements = first.data.size() / size;
  std::array<T, kBlock> a, b;
  for (size_t at = 0; at < elements; at += kBlock) {
    const size_t count = std::min(kBlock, elements - at);
    ReadNumbers(first, at, count, a.data());
    if (from.size() == 1) {
      map::Apply(function, 0, 0, a.data(), a.data(), static_cast<int64_t>(count));
    } else {
      ReadNumbers(from[1].view, at, count, b.data());
      map::Combine(function, a.data(), b.data(), a.data(), static_cast<int64_t>(count));
    }
    if (absl::Status stored = WriteNumbers(a.data(), count, first.type, made->data + at * size); !stored.ok())
      return stored;
  }
  return std::move(made->tensor);
}

absl::StatusOr<OnnxTensor> ComputeEach(MapFunction function, std::span<const OnnxTensor> from, int64_t& bytes_left) {
  const bool is_narrow = IsFloating(from[0].view.type) && from[0].view.type != DataType::kDouble;
  return is_narrow ? ComputeEach<float>(function, from, bytes_left) : ComputeEach<double>(function, from, bytes_left);
}

// Each `inner` numbers of `from`, one after the other, as one of `made`.
template <typename T>
absl::Status ReduceGroups(const std::string& op_type, const TensorView& from, size_t inner, const NewTensor& made) {
  const MapFunction function = FunctionOf(op_type);
  const bool is_square = op_type == "ReduceL2" || op_type == "ReduceSumSquare";
  const auto count = static_cast<int64_t>(inner);
  const size_t size = ByteSize(from.type), groups = from.data.size() / size / inner;
  std::vector<T> x(inner);
  for (size_t group = 0; group < groups; ++group) {
    ReadNumbers(from, group * inner, inner, x.data());
    if (is_square) map::Apply(MapFunction::kSquare, 0, 0, x.data(), x.data(), count);
    if (op_type == "ReduceL1") map::Apply(MapFunction::kAbsolute, 0, 0, x.data(), x.data(), count);
    T sum = map::Reduce(function, x.data(), count);
    if (op_type == "ReduceL2") sum = std::sqrt(sum);
    if (absl::Status stored = WriteNumbers(&sum, 1, from.type, made.data + group * size); !stored.ok()) return stored;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OnnxTensor> FoldFunction(const FoldCall& call) {
  const auto input = call.Input(0);
  if (!input.ok()) return input.status();
  return ComputeEach(FunctionOf(call.node.op_type()), std::span(*input, 1), call.bytes_left);
}

absl::StatusOr<OnnxTensor> FoldArithmetic(const FoldCall& call) {
  const auto a = call.Input(0), b = call.Input(1);
  if (!a.ok()) return a.status();
  if (!b.ok()) return b.status();
  if (call.inputs.size() != 2) return FoldError("has not two inputs");
  const TensorView &first = (*a)->view, &second = (*b)->view;
  if (first.type != second.type && call.node.op_type() != "Pow") {
    return FoldError(
        absl::StrCat("computes with ", OnnxTypeName(first.type), " and ", OnnxTypeName(second.type), " at once"));
  }
  const absl::StatusOr<Shape> shape = BroadcastShape(first.shape, second.shape);
  if (!shape.ok()) return shape.status();
  int64_t room = call.bytes_left;  // what is spread is gone at the end
  std::array<OnnxTensor, 2> spread;
  for (size_t k = 0; k < 2; ++k) {
    absl::StatusOr<OnnxTensor> made = Broadcast(*call.inputs[k], *shape, room);
    if (!made.ok()) return made.status();
    spread[k] = *std::move(made);
  }
  return ComputeEach(FunctionOf(call.node.op_type()), spread, call.bytes_left);
}

absl::StatusOr<OnnxTensor> FoldReduce(const FoldCall& call) {
  const auto input = call.Input(0);
  if (!input.ok()) return input.status();
  const auto named = call.Ints("axes", 1);
  if (!named.ok()) return named.status();
  const TensorView& from = (*input)->view;
  std::set<size_t> axes;
  for (const int64_t axis : named->value_or(std::vector<int64_t>())) {
    const absl::StatusOr<size_t> place = Axis(axis, from.shape.size());
    if (!place.ok()) return place.status();
    axes.insert(*place);
  }
  if (axes.empty() && call.Int("noop_with_empty_axes", 0) != 0) return **input;
  if (axes.empty()) {
    for (size_t axis = 0; axis < from.shape.size(); ++axis) axes.insert(axis);
  }
  std::vector<int64_t> perm;  // the axes that go are the last ones
  Shape shape;
  int64_t inner = 1;
  const bool keeps = call.Int("keepdims", 1) != 0;
  for (size_t axis = 0; axis < from.shape.size(); ++axis) {
    if (!axes.contains(axis)) perm.push_back(static_cast<int64_t>(axis));
    if (!axes.contains(axis)) shape.push_back(from.shape[axis]);
    if (axes.contains(axis) && keeps) shape.push_back(1);
  }
  for (const size_t axis : axes) {
    perm.push_back(static_cast<int64_t>(axis));
    inner *= from.shape[axis];
  }
  if (from.data.empty()) return FoldError("reduces a tensor without elements");
  const absl::StatusOr<OnnxTensor> turned = Permuted(**input, perm, call.bytes_left);  // so time is paid for
  if (!turned.ok()) return turned.status();
  absl::StatusOr<NewTensor> made = AllocateTensor(from.type, std::move(shape), call.bytes_left);
  if (!made.ok()) return made.status();
  const auto count = static_cast<size_t>(inner);
  const bool is_narrow = IsFloating(from.type) && from.type != DataType::kDouble;
  const absl::Status reduced = is_narrow ? ReduceGroups<float>(call.node.op_type(), turned->view, count, *made)
                                         : ReduceGroups<double>(call.node.op_type(), turned->view, count, *made);
  if (!reduced.ok()) return reduced;
  return std::move(made->tensor);
}

}  // namespace rnnserve
