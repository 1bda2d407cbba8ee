// SPDX-License-Identifier: Apache-2.0
#include "engine/map/map.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

namespace rnnserve {
namespace {

// Multiplications that one number of a function, or of what is not a product, is worth.
constexpr int64_t kWorkOfNumber = 4;

constexpr std::array kOpNames = {
    "Lookup", "Product", "",     "",       "",       "Softmax", "LogSoftmax", "LayerNormalization",
    "Reduce", "ArgMax",  "TopK", "Concat", "Select", "Convert"};
constexpr std::array kFunctionNames = {"",
                                       "Relu",
                                       "Tanh",
                                       "Sigmoid",
                                       "Exp",
                                       "Log",
                                       "Sqrt",
                                       "Neg",
                                       "Abs",
                                       "Reciprocal",
                                       "Square",
                                       "Softplus",
                                       "Softsign",
                                       "Erf",
                                       "Gelu",
                                       "Gelu",
                                       "Silu",
                                       "LeakyRelu",
                                       "Elu",
                                       "Selu",
                                       "HardSigmoid",
                                       "Clip",
                                       "Add",
                                       "Sub",
                                       "Mul",
                                       "Div",
                                       "Pow",
                                       "Max",
                                       "Min",
                                       "Greater",
                                       "GreaterOrEqual",
                                       "Less",
                                       "LessOrEqual",
                                       "Equal",
                                       "Where",
                                       "WhereNot",
                                       "Sum",
                                       "Mean",
                                       "Max",
                                       "Min",
                                       "ToFloat16",
                                       "ToBFloat16",
                                       "ToFloat",
                                       "Sin",
                                       "Cos",
                                       "Sign",
                                       "Floor",
                                       "Ceil",
                                       "Round"};
static_assert(kFunctionNames.size() == static_cast<size_t>(MapFunction::kRound) + 1);

}  // namespace

int64_t Map::Work() const {
  int64_t work = 0;
  for (const MapOp& op : ops) {
    const int64_t width = values[static_cast<size_t>(op.out[0])].width;
    work += op.kind == MapOpKind::kProduct ? width * op.inner : width * kWorkOfNumber;
  }
  for (const MapPort& port : inputs) work += values[static_cast<size_t>(port.value)].width;
  for (const MapPort& port : outputs) work += values[static_cast<size_t>(port.value)].width;
  return std::max<int64_t>(1, work);
}

int64_t Map::WeightBytes() const {
  int64_t bytes = 0;
  for (const MapOp& op : ops) {
    for (const MapNumbersPtr& numbers : {op.a, op.b}) bytes += numbers == nullptr ? 0 : numbers->bytes();
    bytes += static_cast<int64_t>(op.places.size() * sizeof(int64_t));
  }
  return bytes;
}

std::string Describe(const Map& map) {
  std::string text;
  for (const MapOp& op : map.ops) {
    const absl::string_view name = kOpNames[static_cast<size_t>(op.kind)];
    const absl::string_view function = kFunctionNames[static_cast<size_t>(op.function)];
    const int64_t width = map.values[static_cast<size_t>(op.out[0])].width;
    absl::StrAppend(&text, text.empty() ? "" : ", ", name);
    if (op.kind == MapOpKind::kProduct) {
      absl::StrAppend(&text, " ", op.inner, "x", op.a->size() / std::max<int64_t>(1, op.inner),
                      op.b == nullptr ? "" : " + bias", function.empty() ? "" : ", ");
    } else if (op.kind == MapOpKind::kLookup) {
      absl::StrAppend(&text, " ", op.a->size() / std::max<int64_t>(1, width), "x", width);
    } else if (op.kind == MapOpKind::kTopK) {
      absl::StrAppend(&text, " ", op.count);
    } else if (!name.empty() && !function.empty()) {
      absl::StrAppend(&text, " ");
    }
    absl::StrAppend(&text, function);
  }
  return text;
}

}  // namespace rnnserve
