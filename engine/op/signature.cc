// SPDX-License-Identifier: Apache-2.0
#include "engine/op/signature.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/op/field_error.h"
#include "engine/op/wording.h"

namespace rnnserve {
namespace {

std::string OperatorName(const OpSpec& spec) { return absl::StrCat(spec.op_type, "-", spec.version); }

bool BatchFirst(const OpSpec& spec) { return spec.dialect == Dialect::kOpenVino || spec.layout == 1; }

Shape StateShape(const OpSpec& spec) {
  if (BatchFirst(spec)) return {kDimN, spec.directions(), spec.hidden_size};
  return {spec.directions(), kDimN, spec.hidden_size};
}

Shape YShape(const OpSpec& spec) {
  if (spec.dialect == Dialect::kOpenVino) return {kDimN, spec.directions(), kDimT, spec.hidden_size};
  if (spec.layout == 1) return {kDimN, kDimT, spec.directions(), spec.hidden_size};
  return {kDimT, spec.directions(), kDimN, spec.hidden_size};
}

}  // namespace

TensorNames NamesOf(Dialect dialect, CellKind kind) {
  const bool lstm = kind == CellKind::kLstm;
  if (dialect == Dialect::kOpenVino) {
    return {"sequence_lengths", "initial_hidden_state", lstm ? "initial_cell_state" : "", "", "Y", "Ho",
            lstm ? "Co" : ""};
  }
  return {"sequence_lens", "initial_h", lstm ? "initial_c" : "", lstm ? "P" : "", "Y", "Y_h", lstm ? "Y_c" : ""};
}

std::vector<TensorSignature> DataInputs(const OpSpec& spec) {
  const TensorNames names = NamesOf(spec.dialect, spec.kind);
  const bool onnx = spec.dialect == Dialect::kOnnx;
  const Shape x = BatchFirst(spec) ? Shape{kDimN, kDimT, spec.input_size} : Shape{kDimT, kDimN, spec.input_size};
  const TensorSignature lengths = {std::string(names.sequence_lens), DataType::kInt32, {kDimN}, onnx};
  const TensorSignature h = {std::string(names.initial_h), spec.data_type, StateShape(spec), onnx};
  const TensorSignature c = {std::string(names.initial_c), spec.data_type, StateShape(spec), onnx};

  std::vector<TensorSignature> inputs = {{"X", spec.data_type, x, false}};
  if (onnx) inputs.push_back(lengths);
  inputs.push_back(h);
  if (!c.name.empty()) inputs.push_back(c);
  if (!onnx) inputs.push_back(lengths);
  return inputs;
}

std::vector<TensorSignature> Outputs(const OpSpec& spec) {
  const TensorNames names = NamesOf(spec.dialect, spec.kind);
  std::vector<TensorSignature> outputs = {{std::string(names.y), spec.data_type, YShape(spec), true},
                                          {std::string(names.final_h), spec.data_type, StateShape(spec), true}};
  if (!names.final_c.empty()) {
    outputs.push_back({std::string(names.final_c), spec.data_type, StateShape(spec), true});
  }
  return outputs;
}

bool IsWeightName(std::string_view name) { return name == "W" || name == "R" || name == "B" || name == "P"; }

absl::Status CheckInputNames(std::span<const NamedTensor> inputs, std::span<const std::string_view> known,
                             std::string_view owner) {
  std::set<std::string_view> seen;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const std::string_view name = inputs[k].name;
    const auto takes = [&] {
      return absl::StrCat(Abseil(owner), " takes ",
                          absl::StrJoin(known, ", ", [](std::string* out, std::string_view one) { out->append(one); }));
    };
    if (name.empty()) {
      return FieldError(absl::StrCat("inputs[", k, "].name"), absl::StrCat("input ", k, " has no name; ", takes()));
    }
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return FieldError(InputField(name), absl::StrCat("there is no input ", Quoted(name), "; ", takes()));
    }
    if (!seen.insert(name).second) {
      return FieldError(InputField(name), absl::StrCat("input ", Abseil(name), " is given twice: keep one of them"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDataNames(const OpSpec& spec, std::span<const NamedTensor> inputs) {
  std::vector<std::string_view> known;
  const std::vector<TensorSignature> signatures = DataInputs(spec);
  for (const TensorSignature& signature : signatures) known.push_back(signature.name);
  for (const NamedTensor& input : inputs) {
    if (!IsWeightName(input.name)) continue;
    return FieldError(InputField(input.name),
                      absl::StrCat(input.name,
                                   " is a weight, which the model holds already: leave it out, or send the "
                                   "whole operator instead of naming a model"));
  }
  return CheckInputNames(inputs, known, OperatorName(spec));
}

}  // namespace rnnserve
