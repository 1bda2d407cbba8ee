// SPDX-License-Identifier: Apache-2.0
// Where a request that names a model is counted, even if the rest of it is wrong.
#pragma once

#include "server/core/core.h"
#include "server/telemetry/model_labels.h"

namespace rnnserve {

// `Request`: InferRequest or OpenRequest. Null: not counted.
template <typename Request>
const CallMetrics* CallsOfTarget(const Core& core, const Request& request) {
  if (request.has_model()) return core.CallsOfNamed(request.model().name());
  return core.CallsOf(request.target_case() == Request::TARGET_NOT_SET ? kUnknownModel : kInlineModel);
}

}  // namespace rnnserve
