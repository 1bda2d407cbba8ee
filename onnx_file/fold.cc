// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/fold.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "engine/float16.h"
#include "engine/op/wording.h"
#include "onnx_file/fold_call.h"
#include "onnx_file/node.h"

namespace rnnserve {
namespace {

absl::StatusOr<OnnxTensor> FoldIdentity(const FoldCall& call) {
  const auto input = call.Input(0);
  if (!input.ok()) return input.status();
  return **input;
}

template <typename T>
absl::StatusOr<OnnxTensor> FromList(DataType type, const T* values, int64_t count, Shape shape, int64_t& bytes_left) {
  absl::StatusOr<NewTensor> made = AllocateTensor(type, std::move(shape), bytes_left);
  if (!made.ok()) return made.status();
  if (count > 0) std::memcpy(made->data, values, static_cast<size_t>(count) * sizeof(T));
  return std::move(made->tensor);
}

// All but `value`, which is a stored tensor.
absl::StatusOr<OnnxTensor> FoldConstant(const FoldCall& call) {
  if (const onnx::AttributeProto* ints = FindAttribute(call.node, "value_ints")) {
    return FromList(DataType::kInt64, ints->ints().data(), ints->ints_size(), {ints->ints_size()}, call.bytes_left);
  }
  if (const onnx::AttributeProto* floats = FindAttribute(call.node, "value_floats")) {
    return FromList(DataType::kFloat, floats->floats().data(), floats->floats_size(), {floats->floats_size()},
                    call.bytes_left);
  }
  if (const onnx::AttributeProto* one = FindAttribute(call.node, "value_int")) {
    const int64_t value = one->i();
    return FromList(DataType::kInt64, &value, 1, {}, call.bytes_left);
  }
  if (const onnx::AttributeProto* one = FindAttribute(call.node, "value_float"); one != nullptr && !one->has_t()) {
    const float value = one->f();
    return FromList(DataType::kFloat, &value, 1, {}, call.bytes_left);
  }
  return FoldError("has no tensor as its attribute \"value\" and no value_float(s) or value_int(s)");
}

// Between floats, between integers, and from integers to floats: what has one meaning for every value.
absl::StatusOr<OnnxTensor> FoldCast(const FoldCall& call) {
  const auto input = call.Input(0);
  if (!input.ok()) return input.status();
  const TensorView& from = (*input)->view;
  const int64_t number = call.Int("to", 0);
  const auto to = static_cast<DataType>(number);
  if (number != static_cast<int32_t>(number) || ByteSize(to) == 0 || (IsFloating(from.type) && !IsFloating(to))) {
    return FoldError(absl::StrCat("casts ", OnnxTypeName(from.type), " to ", OnnxTypeName(number),
                                  ", which is not done when a file is loaded"));
  }
  if (to == from.type) return **input;
  absl::StatusOr<NewTensor> made = AllocateTensor(to, from.shape, call.bytes_left);
  if (!made.ok()) return made.status();
  const int64_t elements = static_cast<int64_t>(from.data.size() / ByteSize(from.type));
  if (IsFloating(from.type)) {
    ConvertElements(from.type, from.data.data(), to, made->data, static_cast<size_t>(elements));
    return std::move(made->tensor);
  }
  const auto put = [&](int64_t index, const auto& value) {
    std::memcpy(made->data + index * static_cast<int64_t>(sizeof(value)), &value, sizeof(value));
  };
  for (int64_t k = 0; k < elements; ++k) {
    const int64_t value = IntAt(from, k);
    if (to == DataType::kInt64) {
      put(k, value);
    } else if (to == DataType::kInt32) {
      if (value != static_cast<int32_t>(value)) return FoldError(absl::StrCat("casts ", value, " to INT32"));
      put(k, static_cast<int32_t>(value));
    } else {
      const auto wide = static_cast<double>(value);
      ConvertElements(DataType::kDouble, reinterpret_cast<const std::byte*>(&wide), to,
                      made->data + k * static_cast<int64_t>(ByteSize(to)), 1);
    }
  }
  return std::move(made->tensor);
}

using Computation = absl::StatusOr<OnnxTensor> (*)(const FoldCall& call);

constexpr std::pair<std::string_view, Computation> kOperators[] = {
    {"Cast", FoldCast},           {"Concat", FoldConcat},
    {"Constant", FoldConstant},   {"Gather", FoldGather},
    {"Identity", FoldIdentity},   {"Reshape", FoldReshape},
    {"Slice", FoldSlice},         {"Squeeze", FoldSqueeze},
    {"Transpose", FoldTranspose}, {"Unsqueeze", FoldUnsqueeze},
    {"Expand", FoldExpand},       {"ConstantOfShape", FoldConstantOfShape},
    {"Shape", FoldShape},         {"DequantizeLinear", FoldDequantize}};
constexpr std::string_view kArithmetic[] = {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"};
constexpr std::string_view kFunctions[] = {"Sqrt", "Neg", "Abs", "Exp", "Log", "Reciprocal", "Relu", "Tanh", "Sigmoid"};
constexpr std::string_view kReductions[] = {"ReduceSum", "ReduceMean", "ReduceMax",      "ReduceMin",
                                            "ReduceL1",  "ReduceL2",   "ReduceSumSquare"};

// Null: none.
Computation Find(const onnx::NodeProto& node) {
  for (const auto& [op_type, computation] : kOperators) {
    if (IsOnnxOp(node, op_type)) return computation;
  }
  if (IsOnnxOp(node, kArithmetic)) return FoldArithmetic;
  if (IsOnnxOp(node, kFunctions)) return FoldFunction;
  return IsOnnxOp(node, kReductions) ? FoldReduce : nullptr;
}

}  // namespace

bool IsFoldable(const onnx::NodeProto& node) { return Find(node) != nullptr; }

absl::StatusOr<OnnxTensor> Fold(const onnx::NodeProto& node, std::span<const OnnxTensor* const> inputs,
                                int64_t& bytes_left) {
  const Computation computation = Find(node);
  if (computation == nullptr) return FoldError("is not done when a file is loaded");
  return computation({node, inputs, bytes_left});
}

absl::StatusOr<const OnnxTensor*> FoldCall::Input(size_t index) const {
  if (index < inputs.size() && inputs[index] != nullptr) return inputs[index];
  return FoldError(absl::StrCat("has no input ", index));
}

int64_t FoldCall::Int(std::string_view name, int64_t otherwise) const {
  const onnx::AttributeProto* attribute = FindAttribute(node, name);
  return attribute == nullptr ? otherwise : attribute->i();
}

absl::StatusOr<std::optional<std::vector<int64_t>>> FoldCall::Ints(std::string_view name, size_t index,
                                                                   size_t most) const {
  const auto too_many = [&](auto count) {
    return FoldError(
        absl::StrCat("has ", View(name), " of ", count, " integers, but at most ", most, " are supported"));
  };
  if (const onnx::AttributeProto* attribute = FindAttribute(node, name)) {
    if (attribute->ints_size() > static_cast<int>(most)) return too_many(attribute->ints_size());
    return std::vector<int64_t>(attribute->ints().begin(), attribute->ints().end());
  }
  if (index >= inputs.size() || inputs[index] == nullptr) return std::nullopt;
  const TensorView& list = inputs[index]->view;
  if (IsFloating(list.type) || list.shape.size() > 1) {
    return FoldError(absl::StrCat("has ", View(name), " (input ", index, ") of type ", OnnxTypeName(list.type),
                                  " and shape ", ShortShape(list.shape), ", but a list of integers is needed"));
  }
  const size_t count = list.data.size() / ByteSize(list.type);
  if (count > most) return too_many(count);
  std::vector<int64_t> values;
  for (size_t k = 0; k < count; ++k) values.push_back(IntAt(list, static_cast<int64_t>(k)));
  return values;
}

absl::StatusOr<NewTensor> AllocateTensor(DataType type, Shape shape, int64_t& bytes_left) {
  const std::optional<int64_t> bytes = NumBytes(type, shape);
  if (!bytes || *bytes > bytes_left) {
    return FoldError(absl::StrCat("gives the shape ", ShortShape(shape), " (",
                                  bytes ? absl::StrCat(*bytes, " bytes") : "more than can be counted", "), but ",
                                  std::max<int64_t>(bytes_left, 0),
                                  " bytes are left for what is computed from the tensors of this file"));
  }
  auto storage = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(*bytes));
  NewTensor made;
  made.data = storage->data();
  bytes_left -= *bytes;
  made.tensor.view = {.type = type, .shape = std::move(shape), .data = *storage};
  made.tensor.storage = std::move(storage);
  return made;
}

absl::StatusOr<size_t> Axis(int64_t axis, size_t rank) {
  const auto end = static_cast<int64_t>(rank);
  if (axis < -end || axis >= end) {
    return FoldError(absl::StrCat("names axis ", axis, " of a tensor with ", rank, " axes"));
  }
  return static_cast<size_t>(axis < 0 ? axis + end : axis);
}

OnnxTensor Reshaped(const OnnxTensor& tensor, Shape shape) {
  OnnxTensor reshaped = tensor;
  reshaped.view.shape = std::move(shape);
  return reshaped;
}

int64_t IntAt(const TensorView& tensor, int64_t index) {
  if (tensor.type == DataType::kInt64) {
    int64_t value = 0;
    std::memcpy(&value, tensor.data.data() + index * 8, 8);
    return value;
  }
  int32_t value = 0;
  std::memcpy(&value, tensor.data.data() + index * 4, 4);
  return value;
}

absl::Status FoldError(const std::string& text) { return absl::FailedPreconditionError(text); }

}  // namespace rnnserve
