// SPDX-License-Identifier: Apache-2.0
#include "engine/onednn/predicate.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace rnnserve::onednn {
namespace {

absl::Status Refuse(absl::string_view reason) { return absl::UnimplementedError(reason); }

absl::Status CheckType(const CellSpec& cell, const EngineOptions& options) {
  if (cell.data_type == DataType::kFloat) return absl::OkStatus();
  const std::string_view name = DataTypeName(cell.data_type);
  if (cell.data_type != DataType::kBFloat16) {
    return Refuse(absl::StrCat("tensors are ", absl::string_view(name.data(), name.size()),
                               "; it computes float32, and bfloat16 where reduced precision is allowed"));
  }
  if (!options.allow_reduced_precision) {
    return Refuse("tensors are bfloat16, which it rounds h to at every step; allow reduced precision to have that");
  }
  return absl::OkStatus();
}

bool IsSigmoid(const Activation& f) { return f.kind == ActivationKind::kSigmoid; }
bool IsTanh(const Activation& f) { return f.kind == ActivationKind::kTanh; }

absl::Status CheckFunctions(const CellSpec& cell) {
  const auto& [f, g, h] = cell.activations;
  switch (cell.kind) {
    case CellKind::kLstm:
      if (IsSigmoid(f) && IsTanh(g) && IsTanh(h)) return absl::OkStatus();
      return Refuse("activations of an LSTM must be Sigmoid, Tanh, Tanh");
    case CellKind::kGru:
      if (IsSigmoid(f) && IsTanh(g)) return absl::OkStatus();
      return Refuse("activations of a GRU must be Sigmoid, Tanh");
    case CellKind::kRnn:
      break;
  }
  const bool known =
      IsSigmoid(f) || IsTanh(f) || f.kind == ActivationKind::kRelu || f.kind == ActivationKind::kLeakyRelu;
  return known ? absl::OkStatus() : Refuse("activations of an RNN must be Tanh, Sigmoid, Relu or LeakyRelu");
}

}  // namespace

absl::Status CheckCell(const CellSpec& cell, const EngineOptions& options, bool cpu_multiplies_bfloat16) {
  if (options.deterministic) {
    return Refuse("deterministic is set, and its results may differ in the last bits with what shares the batch");
  }
  if (absl::Status weights = CheckWeightsAsGiven(options); !weights.ok()) return weights;
  if (absl::Status type = CheckType(cell, options); !type.ok()) return type;
  if (cell.input_size == 0) return Refuse("X has no features (input_size 0)");
  if (!std::isinf(cell.clip)) return Refuse("clip is set, and it cannot clip");
  if (cell.input_forget) return Refuse("input_forget is 1, and it cannot couple the gates");
  if (cell.has_peephole && cell.data_type != DataType::kFloat) {
    return Refuse(absl::StrCat("P is given, and it takes peepholes in float32 only"));
  }
  if (absl::Status functions = CheckFunctions(cell); !functions.ok()) return functions;
  // Last: the reasons above hold on every machine.
  if (cell.data_type == DataType::kBFloat16 && !cpu_multiplies_bfloat16) {
    return Refuse("tensors are bfloat16, and this CPU lacks AVX512_BF16");
  }
  return absl::OkStatus();
}

}  // namespace rnnserve::onednn
