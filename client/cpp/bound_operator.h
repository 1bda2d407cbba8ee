// SPDX-License-Identifier: Apache-2.0
// An operator with its weights, to be run many times. The weights go to the server with the first call; later ones name
// the fingerprint of its reply. When the server no longer holds it (evicted, restarted), the weights are sent again
// within the same call, so a caller never sees FINGERPRINT_EVICTED.
//
//   BoundOperator lstm(client, op, {w, r, b});
//   for (const Tensor& x : utterances) auto result = lstm.Infer({x});
//
// Safe from any thread. The client must outlive it.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "client/cpp/client.h"

namespace rnnserve::client {

class BoundOperator {
 public:
  BoundOperator(Client* client, OperatorDef op, std::vector<Tensor> weights);

  // `data`: the tensors that are no weights, e.g. X, sequence_lens, initial_h.
  absl::StatusOr<InferResult> Infer(const std::vector<Tensor>& data, const InferOptions& options = {});

 private:
  std::string KnownFingerprint();

  Client* const client_;
  const OperatorDef op_;
  const std::vector<Tensor> weights_;

  Mutex mutex_;
  std::string fingerprint_ ABSL_GUARDED_BY(mutex_);  // empty until the first reply
};

}  // namespace rnnserve::client
