// SPDX-License-Identifier: Apache-2.0
// What sessions run, one object for all that were opened alike: a hundred thousand sessions of one model pin it once.
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "server/sessions/execution/session_model.h"

namespace rnnserve {

class SessionModels {
 public:
  // The arguments are those of SessionModel.
  SessionModelPtr Share(PinnedModel pinned, const std::string& model_name, const std::vector<std::string>& outputs,
                        DataType kept_type, SessionCountersPtr counters, bool by_operator_names);

 private:
  static constexpr size_t kFew = 64;

  void ForgetUnused() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  // A model is at its address as long as a session pins it, and another one there is told apart.
  absl::flat_hash_map<const Model*, std::vector<std::weak_ptr<const SessionModel>>> shared_ ABSL_GUARDED_BY(mutex_);
  size_t look_at_ ABSL_GUARDED_BY(mutex_) = kFew;  // models
};

}  // namespace rnnserve
