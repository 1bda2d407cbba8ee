// SPDX-License-Identifier: Apache-2.0
#include "engine/op/version_table.h"

#include <array>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "base/view.h"
#include "engine/op/wording.h"

namespace rnnserve {
namespace {

struct Row {
  Dialect dialect;
  std::string_view op_type;
  CellKind kind;
  std::vector<int64_t> versions;  // ascending
};

const std::array<Row, 6>& Table() {
  static const auto* const table = new std::array<Row, 6>{{
      {Dialect::kOnnx, "LSTM", CellKind::kLstm, {1, 7, 14, 22}},
      {Dialect::kOnnx, "GRU", CellKind::kGru, {1, 3, 7, 14, 22}},
      {Dialect::kOnnx, "RNN", CellKind::kRnn, {1, 7, 14, 22}},
      {Dialect::kOpenVino, "LSTMSequence", CellKind::kLstm, {1, 5}},
      {Dialect::kOpenVino, "GRUSequence", CellKind::kGru, {5}},
      {Dialect::kOpenVino, "RNNSequence", CellKind::kRnn, {5}},
  }};
  return *table;
}

absl::StatusOr<const Row*> FindRow(const OperatorDef& op) {
  const bool onnx = op.domain.empty() || op.domain == "ai.onnx";
  if (!onnx && op.domain != "openvino") {
    return FieldError("operator.domain",
                      absl::StrCat("domain ", Quoted(op.domain),
                                   " is not served: use \"\" or \"ai.onnx\" for LSTM, GRU and RNN, \"openvino\" for "
                                   "LSTMSequence, GRUSequence and RNNSequence"));
  }
  const Dialect dialect = onnx ? Dialect::kOnnx : Dialect::kOpenVino;
  for (const Row& row : Table()) {
    if (row.op_type != op.op_type) continue;
    if (row.dialect == dialect) return &row;
    return FieldError("operator.op_type",
                      absl::StrCat(op.op_type, onnx ? " is an OpenVINO operator: set domain to \"openvino\""
                                                    : " is an ONNX operator: set domain to \"\" or \"ai.onnx\""));
  }
  return FieldError("operator.op_type",
                    absl::StrCat("op_type ", Quoted(op.op_type), " is not served: expected ",
                                 onnx ? "LSTM, GRU or RNN" : "LSTMSequence, GRUSequence or RNNSequence"));
}

absl::StatusOr<int64_t> ExactVersion(const Row& row, int64_t version) {
  for (int64_t known : row.versions) {
    if (known == version) return version;
  }
  return FieldError(
      "operator.version",
      absl::StrCat(View(row.op_type), "-", version, " does not exist: ", View(row.op_type), " has the versions ",
                   absl::StrJoin(row.versions, ", "), "; to name an opset instead, set opset and leave version out"));
}

absl::StatusOr<int64_t> VersionOfOpset(const Row& row, int64_t opset) {
  int64_t version = 0;
  for (int64_t known : row.versions) {
    if (known <= opset) version = known;
  }
  if (version > 0) return version;
  return FieldError("operator.opset", absl::StrCat("opset ", opset, " has no ", View(row.op_type),
                                                   ": it exists from opset ", row.versions.front(), " on"));
}

}  // namespace

std::string OperatorVersion::Name() const { return absl::StrCat(op_type, "-", version); }

absl::StatusOr<OperatorVersion> ResolveVersion(const OperatorDef& op) {
  ASSIGN_OR_RETURN(const Row* found, FindRow(op));
  const Row& row = *found;
  if (op.version.has_value() == op.opset.has_value()) {
    return FieldError("operator.version",
                      op.version
                          ? absl::StrCat("version ", *op.version, " and opset ", *op.opset,
                                         " are both given: keep exactly one of them")
                          : absl::StrCat("neither version nor opset is given: name exactly one, e.g. version ",
                                         row.versions.back(), " for ", View(row.op_type), "-", row.versions.back()));
  }
  ASSIGN_OR_RETURN(const int64_t version, op.version ? ExactVersion(row, *op.version) : VersionOfOpset(row, *op.opset));
  return OperatorVersion{row.dialect, row.kind, std::string(row.op_type), version};
}

}  // namespace rnnserve
