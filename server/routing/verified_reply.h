// SPDX-License-Identifier: Apache-2.0
// Two runs of one call: the caller is answered with the first one's reply once both are done, since both read the
// caller's message.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/core/call.h"
#include "server/routing/verifier.h"

namespace rnnserve {

class VerifiedReply {
 public:
  VerifiedReply(Verifier* verifier, std::string model, WeightType weights, InferDone done)
      : verifier_(verifier), model_(std::move(model)), weights_(weights), done_(std::move(done)) {}

  // Each once.
  void First(absl::StatusOr<InferReply> reply) { Set(first_, std::move(reply)); }
  void Second(absl::StatusOr<InferReply> reply) { Set(second_, std::move(reply)); }

 private:
  using Reply = std::optional<absl::StatusOr<InferReply>>;

  void Set(Reply& which, absl::StatusOr<InferReply> reply) {
    {
      const MutexLock lock(mutex_);
      which = std::move(reply);
      if (!first_ || !second_) return;
    }
    if (first_->ok()) verifier_->Compare(model_, **first_, *second_, weights_);
    second_.reset();
    done_(*std::move(first_));
  }

  Verifier* const verifier_;
  const std::string model_;
  const WeightType weights_;
  InferDone done_;
  Mutex mutex_;
  // Guarded by mutex_ until both are set.
  Reply first_, second_;
};

}  // namespace rnnserve
