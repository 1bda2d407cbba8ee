// SPDX-License-Identifier: Apache-2.0
#include "engine/op/tensor_check.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/view.h"
#include "engine/op/wording.h"

namespace rnnserve {
namespace {

// "[T, N, I = 39]".
std::string Describe(std::span<const ExpectedAxis> expected) {
  std::string text = "[";
  for (const ExpectedAxis& axis : expected) {
    absl::StrAppend(&text, text.size() > 1 ? ", " : "", View(axis.symbol));
    if (axis.size) absl::StrAppend(&text, " = ", *axis.size);
  }
  return text + "]";
}

bool Fits(std::span<const int64_t> shape, std::span<const ExpectedAxis> expected) {
  if (shape.size() != expected.size()) return false;
  for (size_t k = 0; k < shape.size(); ++k) {
    if (expected[k].size && *expected[k].size != shape[k]) return false;
  }
  return true;
}

}  // namespace

const NamedTensor* FindInput(std::span<const NamedTensor> inputs, std::string_view name) {
  for (const NamedTensor& input : inputs) {
    if (input.name == name) return &input;
  }
  return nullptr;
}

absl::Status CheckFloatingType(const NamedTensor& input, DataType type, std::string_view type_giver) {
  if (input.tensor.type == type) return absl::OkStatus();
  return FieldError(
      InputField(input.name) + ".data_type",
      absl::StrCat(input.name, " is ", View(DataTypeName(input.tensor.type)), ", but ", View(type_giver), " is ",
                   View(DataTypeName(type)), ": all floating inputs of one request share one type"));
}

absl::Status CheckShape(const NamedTensor& input, std::span<const ExpectedAxis> expected, std::string_view owner,
                        std::string_view remark) {
  const TensorView& tensor = input.tensor;
  const auto shape_field = [&] { return InputField(input.name) + ".shape"; };
  const std::optional<int64_t> bytes = NumBytes(tensor.type, tensor.shape);
  if (!bytes) {
    for (int64_t axis : tensor.shape) {
      if (axis >= 0) continue;
      return FieldError(shape_field(), absl::StrCat(input.name, " has shape ", ShortShape(tensor.shape),
                                                    "; every axis must be at least 0"));
    }
    return FieldError(shape_field(), absl::StrCat(input.name, " has shape ", ShortShape(tensor.shape), " of ",
                                                  View(DataTypeName(tensor.type)),
                                                  ", which is more than 2^63 - 1 bytes: send a smaller tensor"));
  }
  if (!Fits(tensor.shape, expected)) {
    const bool rank = tensor.shape.size() != expected.size();
    return FieldError(
        shape_field(),
        absl::StrCat(input.name, " has shape ", ShortShape(tensor.shape),
                     rank ? absl::StrCat(" (", tensor.shape.size(),
                                         tensor.shape.size() == 1 ? " axis, not " : " axes, not ", expected.size(), ")")
                          : "",
                     "; ", View(owner), " expects ", Describe(expected), remark.empty() ? "" : ", ", View(remark)));
  }
  if (static_cast<uint64_t>(*bytes) != tensor.data.size()) {
    return FieldError(InputField(input.name), absl::StrCat(input.name, " holds ", tensor.data.size(),
                                                           " bytes, but shape ", ShortShape(tensor.shape), " of ",
                                                           View(DataTypeName(tensor.type)), " takes ", *bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckWithoutData(std::string_view input, int64_t rows, int64_t steps) {
  constexpr int64_t kMax = int64_t{1} << 20;
  int64_t row_steps = 0;
  if (!__builtin_mul_overflow(rows, std::max<int64_t>(steps, 1), &row_steps) && row_steps <= kMax) {
    return absl::OkStatus();
  }
  return FieldError(
      InputField(input) + ".shape",
      absl::StrCat(View(input), " has ", steps, " steps of ", rows,
                   " rows without any element; such a request may have at most ", kMax, " rows times steps"));
}

}  // namespace rnnserve
