// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/check.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "client/cpp/codec.h"

namespace rnnserve::rnnctl::bench {
namespace {

using client::Tensor;

bool IsClose(double first, double other, double tolerance) {
  if (std::isnan(first) || std::isnan(other)) return std::isnan(first) && std::isnan(other);
  if (first == other) return true;  // infinities
  return std::abs(first - other) <= tolerance * std::max(1.0, std::abs(first));
}

Verdict Compare(const Tensor& first, const Tensor& other, double tolerance) {
  if (first.name != other.name || first.type != other.type || first.shape != other.shape) return Verdict::kWrong;
  if (first.bytes == other.bytes) return Verdict::kSame;
  if (tolerance == 0) return Verdict::kWrong;
  const std::vector<double> expected = client::ValuesOf(first);
  const std::vector<double> came = client::ValuesOf(other);
  for (size_t k = 0; k < expected.size(); ++k) {
    if (!IsClose(expected[k], came[k], tolerance)) return Verdict::kWrong;
  }
  return Verdict::kClose;
}

}  // namespace

Verdict AnswerCheck::Check(size_t request, const std::string& reply) {
  v1::InferResponse wire;
  if (!wire.ParseFromString(reply)) return Verdict::kWrong;
  absl::StatusOr<client::InferResult> result = client::DecodeInfer(wire);
  if (!result.ok()) return Verdict::kWrong;
  return Check(request, std::move(result->outputs));
}

Verdict AnswerCheck::CheckOperation(size_t request, const std::string& reply) {
  v1::OperationReply operation;
  if (!operation.ParseFromString(reply)) return Verdict::kWrong;
  v1::InferResponse wire;
  wire.mutable_outputs()->Swap(operation.mutable_outputs());
  absl::StatusOr<client::InferResult> result = client::DecodeInfer(wire);
  if (!result.ok()) return Verdict::kWrong;
  return Check(request, std::move(result->outputs));
}

Verdict AnswerCheck::Check(size_t request, std::vector<Tensor> outputs) {
  const auto [first, is_first] = first_.try_emplace(request);
  if (is_first) {
    first->second = std::move(outputs);
    return Verdict::kSame;
  }
  if (first->second.size() != outputs.size()) return Verdict::kWrong;
  Verdict worst = Verdict::kSame;
  for (size_t k = 0; k < outputs.size(); ++k) {
    worst = std::max(worst, Compare(first->second[k], outputs[k], tolerance_));
  }
  return worst;
}

}  // namespace rnnserve::rnnctl::bench
