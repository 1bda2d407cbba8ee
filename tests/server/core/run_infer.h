// SPDX-License-Identifier: Apache-2.0
// A call from its acceptance to its reply, as a dialect makes it on one thread.
#pragma once

#include <utility>

#include "server/core/core.h"

namespace rnnserve {

inline void RunInfer(Core& core, const InferCall& call, InferDone done) {
  absl::StatusOr<InferRunPtr> accepted = core.Accept(call);
  if (!accepted.ok()) return done(accepted.status());
  core.Run(*std::move(accepted), std::move(done));
}

}  // namespace rnnserve
