// SPDX-License-Identifier: Apache-2.0
#include "engine/op/activations.h"

#include <optional>
#include <span>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "engine/op/wording.h"

namespace rnnserve {
namespace {

struct Function {
  ActivationKind kind;
  std::string_view name;
  // Defaults of the stand-alone ONNX operators, floats as there; absent: the function has no such parameter.
  std::optional<float> alpha = {};
  std::optional<float> beta = {};
  bool in_openvino = false;
};

constexpr std::array<Function, 11> kFunctions = {{
    {ActivationKind::kRelu, "Relu", {}, {}, true},
    {ActivationKind::kTanh, "Tanh", {}, {}, true},
    {ActivationKind::kSigmoid, "Sigmoid", {}, {}, true},
    {ActivationKind::kAffine, "Affine", 1.0f, 0.0f},
    {ActivationKind::kLeakyRelu, "LeakyRelu", 0.01f},
    {ActivationKind::kThresholdedRelu, "ThresholdedRelu", 1.0f},
    {ActivationKind::kScaledTanh, "ScaledTanh", 1.0f, 1.0f},  // ONNX has no defaults; DirectML's
    {ActivationKind::kHardSigmoid, "HardSigmoid", 0.2f, 0.5f, true},
    {ActivationKind::kElu, "Elu", 1.0f},
    {ActivationKind::kSoftsign, "Softsign"},
    {ActivationKind::kSoftplus, "Softplus"},
}};

const Function& FunctionOf(ActivationKind kind) {
  for (const Function& function : kFunctions) {
    if (function.kind == kind) return function;
  }
  return kFunctions[0];
}

absl::StatusOr<const Function*> FindFunction(const OperatorVersion& op, std::string_view name) {
  const bool openvino = op.dialect == Dialect::kOpenVino;
  std::string known;
  for (const Function& function : kFunctions) {
    if (openvino && !function.in_openvino) continue;
    if (absl::EqualsIgnoreCase(View(function.name), View(name))) return &function;
    absl::StrAppend(&known, known.empty() ? "" : ", ", View(function.name));
  }
  return FieldError(AttributeField("activations"), absl::StrCat(Quoted(name), " is no activation function of ",
                                                                op.Name(), "; expected one of ", known));
}

// f, g, h of one direction.
std::vector<const Function*> Defaults(CellKind kind) {
  const Function* sigmoid = &FunctionOf(ActivationKind::kSigmoid);
  const Function* tanh = &FunctionOf(ActivationKind::kTanh);
  switch (kind) {
    case CellKind::kLstm:
      return {sigmoid, tanh, tanh};
    case CellKind::kGru:
      return {sigmoid, tanh};
    case CellKind::kRnn:
      break;
  }
  return {tanh};
}

// All functions of the operator in the order of its list. `two_for_one` is set for the RNN of one direction with two
// names (the schema's default has two), of which the first is used.
absl::StatusOr<std::vector<const Function*>> ReadNames(const OperatorVersion& op, const Attributes& attributes,
                                                       bool& two_for_one) {
  const std::vector<const Function*> defaults = Defaults(op.kind);
  const bool listed_per_direction = op.dialect == Dialect::kOnnx && attributes.direction == Direction::kBidirectional;
  const size_t count = defaults.size() * (listed_per_direction ? 2 : 1);
  std::vector<const Function*> functions;
  if (attributes.activations.empty()) {
    while (functions.size() < count) functions.insert(functions.end(), defaults.begin(), defaults.end());
    return functions;
  }
  const size_t given = attributes.activations.size();
  two_for_one = op.dialect == Dialect::kOnnx && op.kind == CellKind::kRnn && count == 1 && given == 2;
  if (given != count && !two_for_one) {
    return FieldError(AttributeField("activations"),
                      absl::StrCat("activations has ", given, given == 1 ? " name" : " names", ", but ", op.Name(),
                                   listed_per_direction ? " with direction bidirectional" : "", " takes ", count));
  }
  for (const std::string& name : attributes.activations) {
    ASSIGN_OR_RETURN(const Function* function, FindFunction(op, name));
    functions.push_back(function);
  }
  functions.resize(count);
  return functions;
}

// One of the two parameter lists.
struct ParameterList {
  std::string_view attribute;  // activation_alpha
  std::string_view parameter;  // "an alpha"
  std::optional<float> Function::*default_value;
  double Activation::*target;
};

// Fills `target` of every activation that has the parameter.
absl::Status Distribute(const OperatorVersion& op, const ParameterList& list, std::span<const float> values,
                        std::span<const Function* const> functions, std::span<Activation> activations,
                        std::vector<std::string>& warnings) {
  const size_t n = functions.size();
  size_t m = 0;
  for (const Function* function : functions) m += (function->*list.default_value).has_value();
  const bool onnx = op.dialect == Dialect::kOnnx;
  if (onnx ? values.size() > m && values.size() != n : values.size() > n) {
    return FieldError(
        AttributeField(list.attribute),
        absl::StrCat(View(list.attribute), " has ", values.size(), values.size() == 1 ? " value for " : " values for ",
                     n, n == 1 ? " function" : " functions",
                     onnx ? absl::StrCat(", of which ", m, m == 1 ? " takes " : " take ", View(list.parameter),
                                         ": give at most ", m, " (one for each that takes it) or ", n,
                                         " (one for each function)")
                          : absl::StrCat(": give at most ", n, " (one for each function)")));
  }
  const bool by_position = !onnx || values.size() > m;
  if (onnx && by_position) {
    warnings.push_back(
        absl::StrCat(View(list.attribute), " has ", values.size(), values.size() == 1 ? " value for " : " values for ",
                     n, n == 1 ? " function" : " functions", ", of which ", m, m == 1 ? " takes " : " take ",
                     View(list.parameter), ": read by position; onnxruntime reads them in the order of need"));
  }
  size_t next = 0;
  for (size_t k = 0; k < n; ++k) {
    const std::optional<float>& default_value = functions[k]->*list.default_value;
    if (!default_value) continue;
    const size_t index = by_position ? k : next++;
    activations[k].*list.target = static_cast<double>(index < values.size() ? values[index] : *default_value);
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view ActivationName(ActivationKind kind) { return FunctionOf(kind).name; }

absl::StatusOr<ResolvedActivations> ResolveActivations(const OperatorVersion& op, const Attributes& attributes) {
  bool two_for_one = false;
  ASSIGN_OR_RETURN(const std::vector<const Function*> functions, ReadNames(op, attributes, two_for_one));

  std::vector<Activation> activations;
  for (const Function* function : functions) activations.push_back({function->kind, 0, 0});

  ResolvedActivations result;
  const bool onnx = op.dialect == Dialect::kOnnx;
  const ParameterList lists[] = {
      {onnx ? "activation_alpha" : "activations_alpha", "an alpha", &Function::alpha, &Activation::alpha},
      {onnx ? "activation_beta" : "activations_beta", "a beta", &Function::beta, &Activation::beta},
  };
  for (const ParameterList& list : lists) {
    std::span<const float> values = list.target == &Activation::alpha ? attributes.alpha : attributes.beta;
    if (two_for_one && values.size() == 2) values = values.first(1);
    RETURN_IF_ERROR(Distribute(op, list, values, functions, activations, result.warnings));
  }

  const size_t per_direction = Defaults(op.kind).size();
  const size_t directions = attributes.direction == Direction::kBidirectional ? 2 : 1;
  for (size_t d = 0; d < directions; ++d) {
    const size_t first = activations.size() > per_direction ? d * per_direction : 0;  // OpenVINO: one list for both
    for (size_t k = 0; k < per_direction; ++k) result.functions[d][k] = activations[first + k];
  }
  return result;
}

}  // namespace rnnserve
