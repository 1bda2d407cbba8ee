// SPDX-License-Identifier: Apache-2.0
// --attr NAME=VALUE to an attribute of the kind that the operators' texts give it:
//
//   clip=3.5  direction=reverse  activations=Tanh,Relu,Tanh  layout=1  linear_before_reset=true
//
// NAME:KIND=VALUE says the kind where the table does not know the name (int, float, string, ints, floats, strings).
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/op/operator.h"

namespace rnnserve::rnnctl {

absl::StatusOr<std::pair<std::string, AttributeValue>> ParseAttribute(std::string_view text);
absl::StatusOr<std::map<std::string, AttributeValue>> ParseAttributes(std::span<const std::string> texts);

// "3.5", "forward", "Tanh,Relu": as it would be given on the command line.
std::string AttributeText(const AttributeValue& value);

}  // namespace rnnserve::rnnctl
