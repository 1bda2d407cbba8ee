// SPDX-License-Identifier: Apache-2.0
// Which operators exist in which versions (recurrent-operators.md, sections 1 and 13).
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "engine/op/op_spec.h"

namespace rnnserve {

struct OperatorVersion {
  Dialect dialect = Dialect::kOnnx;
  CellKind kind = CellKind::kLstm;
  std::string op_type;
  int64_t version = 0;  // since-version

  // "LSTM-14".
  std::string Name() const;
};

// From domain, op_type and exactly one of version and opset.
absl::StatusOr<OperatorVersion> ResolveVersion(const OperatorDef& op);

}  // namespace rnnserve
