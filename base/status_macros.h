// SPDX-License-Identifier: Apache-2.0
// Early returns of errors, as in TensorFlow and protobuf, for functions that return a Status or a StatusOr:
//
//   RETURN_IF_ERROR(Check(request));
//   ASSIGN_OR_RETURN(const Plan plan, PlanOf(request));  // auto for types with commas; auto&& moves nothing
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define RETURN_IF_ERROR(expression) \
  if (absl::Status returned_status = (expression); !returned_status.ok()) return returned_status

#define ASSIGN_OR_RETURN(declaration, expression) \
  RNNSERVE_ASSIGN_OR_RETURN(RNNSERVE_JOINED(status_or_, __LINE__), declaration, expression)

#define RNNSERVE_ASSIGN_OR_RETURN(result, declaration, expression) \
  auto result = (expression);                                      \
  if (!result.ok()) return std::move(result).status();             \
  declaration = *std::move(result)

#define RNNSERVE_JOINED(begin, end) RNNSERVE_JOINED_NOW(begin, end)
#define RNNSERVE_JOINED_NOW(begin, end) begin##end
