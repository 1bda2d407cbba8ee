// SPDX-License-Identifier: Apache-2.0
// rnnserve.v1.Operator <-> that of the core.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/op/operator.h"
#include "rnnserve/v1/tensor.pb.h"

namespace rnnserve {

// Takes everything as it is named; what operators, versions and attributes there are is engine/op's business. Refuses
// attributes without a value. `path` is the field's own, e.g. "operator".
absl::StatusOr<OperatorDef> DecodeOperator(const v1::Operator& message, std::string_view path);
void EncodeOperator(const OperatorDef& op, v1::Operator& message);

}  // namespace rnnserve
