// SPDX-License-Identifier: Apache-2.0
// The activation functions of an operator, from its three lists (recurrent-operators.md, section 6).
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/op/attributes.h"
#include "engine/op/version_table.h"

namespace rnnserve {

struct ResolvedActivations {
  std::array<std::array<Activation, 3>, 2> functions = {};  // [direction][f, g, h]
  std::vector<std::string> warnings;
};

// Names: compared without case; absent: Sigmoid for gates, Tanh for the rest.
// Parameters, ONNX: as needed (each function that has the parameter takes the next value) unless the list has a value
// for every function although some need none: then by position. OpenVINO: by position.
absl::StatusOr<ResolvedActivations> ResolveActivations(const OperatorVersion& op, const Attributes& attributes);

// "HardSigmoid".
std::string_view ActivationName(ActivationKind kind);

}  // namespace rnnserve
