// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/bound_operator.h"

#include <utility>

#include "base/field_error.h"

namespace rnnserve::client {

BoundOperator::BoundOperator(Client* client, OperatorDef op, std::vector<Tensor> weights)
    : client_(client), op_(std::move(op)), weights_(std::move(weights)) {}

absl::StatusOr<InferResult> BoundOperator::Infer(const std::vector<Tensor>& data, const InferOptions& options) {
  const std::string fingerprint = KnownFingerprint();
  if (fingerprint.empty()) return SendWithWeights(data, options);
  absl::StatusOr<InferResult> result = client_->Infer(Fingerprint{fingerprint}, data, options);
  if (result.ok() || ReasonOf(result.status()) != "FINGERPRINT_EVICTED") return result;
  return SendWithWeights(data, options);
}

absl::StatusOr<InferResult> BoundOperator::SendWithWeights(const std::vector<Tensor>& data,
                                                           const InferOptions& options) {
  std::vector<Tensor> inputs = data;
  inputs.insert(inputs.end(), weights_.begin(), weights_.end());
  absl::StatusOr<InferResult> result = client_->Infer(op_, inputs, options);
  if (result.ok()) {
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
