// SPDX-License-Identifier: Apache-2.0
// ResolveOperator: version, names, attributes, then the weights' types and shapes.
#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "engine/op/activations.h"
#include "engine/op/attributes.h"
#include "engine/op/op_spec.h"
#include "engine/op/signature.h"
#include "engine/op/tensor_check.h"
#include "engine/op/version_table.h"
#include "engine/op/wording.h"

namespace rnnserve {
namespace {

struct Weights {
  const NamedTensor* w = nullptr;
  const NamedTensor* r = nullptr;
  const NamedTensor* b = nullptr;
  const NamedTensor* p = nullptr;
};

absl::Status CheckNames(const OperatorVersion& op, std::span<const NamedTensor> inputs) {
  const TensorNames names = NamesOf(op.dialect, op.kind);
  std::vector<std::string_view> known;
  for (std::string_view name :
       {std::string_view("X"), std::string_view("W"), std::string_view("R"), std::string_view("B"), names.sequence_lens,
        names.initial_h, names.initial_c, names.peephole}) {
    if (!name.empty()) known.push_back(name);
  }
  return CheckInputNames(inputs, known, op.Name());
}

absl::StatusOr<Weights> FindWeights(const OperatorVersion& op, std::span<const NamedTensor> inputs) {
  const Weights weights = {FindInput(inputs, "W"), FindInput(inputs, "R"), FindInput(inputs, "B"),
                           FindInput(inputs, "P")};
  const bool needs_bias = op.dialect == Dialect::kOpenVino;
  for (const auto& [name, tensor, needed] :
       {std::tuple("W", weights.w, true), std::tuple("R", weights.r, true), std::tuple("B", weights.b, needs_bias)}) {
    if (tensor == nullptr && needed) {
      return FieldError(InputField(name), absl::StrCat("input ", name, " is missing; ", op.Name(), " requires it"));
    }
  }
  return weights;
}

absl::Status CheckTypes(const OperatorVersion& op, const Weights& weights) {
  const DataType type = weights.w->tensor.type;
  if (!IsFloating(type)) {
    return FieldError("inputs[W].data_type",
                      absl::StrCat("W is ", View(DataTypeName(type)), "; ", op.Name(), " takes floating weights"));
  }
  if (op.dialect == Dialect::kOnnx && type == DataType::kBFloat16 && op.version < 22) {
    return FieldError("inputs[W].data_type",
                      absl::StrCat("W is bfloat16, which ", op.Name(), " does not take: name version 22, or send ",
                                   "float16, float32 or float64"));
  }
  for (const NamedTensor* tensor : {weights.r, weights.b, weights.p}) {
    if (tensor == nullptr) continue;
    RETURN_IF_ERROR(CheckFloatingType(*tensor, type, "W"));
  }
  return absl::OkStatus();
}

std::string_view GatesTimesH(CellKind kind) {
  return kind == CellKind::kLstm ? "4*H" : kind == CellKind::kGru ? "3*H" : "H";
}

struct BiasAxis {
  std::string_view symbol;
  int64_t blocks;
};

BiasAxis BiasOf(const OperatorVersion& op, bool linear_before_reset) {
  const bool onnx = op.dialect == Dialect::kOnnx;
  switch (op.kind) {
    case CellKind::kLstm:
      return onnx ? BiasAxis{"8*H", 8} : BiasAxis{"4*H", 4};
    case CellKind::kGru:
      if (onnx) return {"6*H", 6};
      return linear_before_reset ? BiasAxis{"4*H", 4} : BiasAxis{"3*H", 3};
    case CellKind::kRnn:
      break;
  }
  return onnx ? BiasAxis{"2*H", 2} : BiasAxis{"H", 1};
}

// R gives H, W gives I. R is whole before the others are looked at: from then on H*H elements are known to be in
// memory, so that small multiples of H cannot overflow.
absl::Status CheckShapes(const OperatorVersion& op, const Attributes& attributes, const Weights& weights,
                         OpSpec& spec) {
  const int64_t d = spec.directions();
  const std::string remark =
      absl::StrCat("with D = ", d, " for direction ",
                   spec.direction == Direction::kBidirectional ? "bidirectional" : "forward or reverse");
  const Shape& r = weights.r->tensor.shape;
  const int64_t h = r.empty() ? 0 : r.back();
  std::optional<int64_t> rows = 0;
  if (int64_t product; h >= 0 && !__builtin_mul_overflow(h, GateCount(op.kind), &product)) rows = product;
  const std::array<ExpectedAxis, 3> r_axes = {{{"D", d}, {GatesTimesH(op.kind), rows}, {"H"}}};
  RETURN_IF_ERROR(CheckShape(*weights.r, r_axes, op.Name(), remark));
  if (h == 0) {
    return FieldError("inputs[R].shape", absl::StrCat("R has shape ", ShortShape(r),
                                                      ", so the hidden size would be 0; ", "expected at least 1"));
  }
  if (attributes.hidden_size && *attributes.hidden_size != h) {
    return FieldError(
        AttributeField("hidden_size"),
        absl::StrCat("hidden_size is ", *attributes.hidden_size, ", but the last axis of R (shape ", ShortShape(r),
                     ") is ", h, op.dialect == Dialect::kOnnx ? ": correct or omit it" : ""));
  }
  const std::array<ExpectedAxis, 3> w_axes = {{{"D", d}, {GatesTimesH(op.kind), rows}, {"I"}}};
  RETURN_IF_ERROR(CheckShape(*weights.w, w_axes, op.Name(), remark));
  if (weights.b != nullptr) {
    const BiasAxis bias = BiasOf(op, spec.linear_before_reset);
    const std::array<ExpectedAxis, 2> axes = {{{"D", d}, {bias.symbol, bias.blocks * h}}};
    RETURN_IF_ERROR(CheckShape(*weights.b, axes, op.Name(), remark));
  }
  if (weights.p != nullptr) {
    const std::array<ExpectedAxis, 2> axes = {{{"D", d}, {"3*H", 3 * h}}};
    RETURN_IF_ERROR(CheckShape(*weights.p, axes, op.Name(), remark));
  }
  spec.hidden_size = h;
  spec.input_size = weights.w->tensor.shape[2];
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OpSpec> ResolveOperator(const OperatorDef& op, std::span<const NamedTensor> inputs) {
  ASSIGN_OR_RETURN(const OperatorVersion version, ResolveVersion(op));
  ASSIGN_OR_RETURN(const Attributes attributes, ReadAttributes(version, op.attributes));
  ASSIGN_OR_RETURN(ResolvedActivations activations, ResolveActivations(version, attributes));
  RETURN_IF_ERROR(CheckNames(version, inputs));
  ASSIGN_OR_RETURN(const Weights weights, FindWeights(version, inputs));
  RETURN_IF_ERROR(CheckTypes(version, weights));

  OpSpec spec;
  spec.dialect = version.dialect;
  spec.op_type = version.op_type;
  spec.kind = version.kind;
  spec.version = version.version;
  spec.name = version.Name();
  spec.direction = attributes.direction;
  spec.data_type = weights.w->tensor.type;
  spec.has_bias = weights.b != nullptr;
  spec.has_peephole = weights.p != nullptr;
  spec.layout = attributes.layout;
  spec.activations = activations.functions;
  spec.clip = attributes.clip;
  spec.input_forget = attributes.input_forget;
  spec.linear_before_reset = attributes.linear_before_reset;
  spec.y_by_default = attributes.y_by_default;
  spec.warnings = std::move(activations.warnings);
  RETURN_IF_ERROR(CheckShapes(version, attributes, weights, spec));
  return spec;
}

}  // namespace rnnserve
