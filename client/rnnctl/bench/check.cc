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

Match Compare(const Tensor& first, const Tensor& other, double tolerance) {
  if (first.name != other.name || first.type != other.type || first.shape != other.shape) return Match::kWrong;
  if (first.bytes == other.bytes) return Match::kSame;
  if (tolerance == 0) return Match::kWrong;
  const std::vector<double> expected = client::ValuesOf(first);
  const std::vector<double> came = client::ValuesOf(other);
  for (size_t k = 0; k < expected.size(); ++k) {
    if (!IsClose(expected[k], came[k], tolerance)) return Match::kWrong;
  }
  return Match::kClose;
}

}  // namespace

Match AnswerCheck::Check(size_t request, const std::string& reply) {
  v1::InferResponse wire;
  if (!wire.ParseFromString(reply)) return Match::kWrong;
  absl::StatusOr<client::InferResult> result = client::DecodeInfer(wire);
  if (!result.ok()) return Match::kWrong;
  return Check(request, std::move(result->outputs));
}

Match AnswerCheck::CheckOperation(size_t request, const std::string& reply) {
  v1::OperationReply operation;
  if (!operation.ParseFromString(reply)) return Match::kWrong;
  v1::InferResponse wire;
  wire.mutable_outputs()->Swap(operation.mutable_outputs());
  absl::StatusOr<client::InferResult> result = client::DecodeInfer(wire);
  if (!result.ok()) return Match::kWrong;
  return Check(request, std::move(result->outputs));
}

Match AnswerCheck::Check(size_t request, std::vector<Tensor> outputs) {
  const auto [first, is_first] = first_.try_emplace(request);
  if (is_first) {
    first->second = std::move(outputs);
    return Match::kSame;
  }
  if (first->second.size() != outputs.size()) return Match::kWrong;
  Match worst = Match::kSame;
  for (size_t k = 0; k < outputs.size(); ++k) {
    worst = std::max(worst, Compare(first->second[k], outputs[k], tolerance_));
  }
  return worst;
}

}  // namespace rnnserve::rnnctl::bench
