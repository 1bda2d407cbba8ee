// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/bound_operator.h"

#include <utility>

namespace rnnserve::client {

BoundOperator::BoundOperator(Client* client, OperatorDef op, std::vector<Tensor> weights)
    : client_(client), op_(std::move(op)), weights_(std::move(weights)) {}

absl::StatusOr<InferResult> BoundOperator::Infer(const std::vector<Tensor>& data, const InferOptions& options) {
  const std::string fingerprint = KnownFingerprint();
  std::vector<Tensor> inputs = data;
  if (fingerprint.empty()) inputs.insert(inputs.end(), weights_.begin(), weights_.end());
  absl::StatusOr<InferResult> result =
      fingerprint.empty() ? client_->Infer(op_, inputs, options)
                          : client_->InferKnown(Fingerprint{fingerprint}, op_, data, weights_, options);
  if (result.ok() && result->fingerprint != fingerprint) {
    MutexLock lock(mutex_);
    fingerprint_ = result->fingerprint;
  }
  return result;
}

std::string BoundOperator::KnownFingerprint() {
  MutexLock lock(mutex_);
  return fingerprint_;
}

}  // namespace rnnserve::client
