// SPDX-License-Identifier: Apache-2.0
// Holds every answer against the first one to the same request.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "client/cpp/tensor.h"
#include "client/rnnctl/bench/sender.h"

namespace rnnserve::rnnctl::bench {

class AnswerCheck {
 public:
  // Values may differ by `tolerance` times the larger of 1 and the first value; 0: bit for bit.
  explicit AnswerCheck(double tolerance) : tolerance_(tolerance) {}

  // `reply`: a serialised InferResponse. The first one is kSame. kWrong also for what cannot be read.
  Match Check(size_t request, const std::string& reply);
  // `reply`: a serialised OperationReply.
  Match CheckOperation(size_t request, const std::string& reply);

 private:
  Match Check(size_t request, std::vector<client::Tensor> outputs);

  const double tolerance_;
  std::unordered_map<size_t, std::vector<client::Tensor>> first_;  // by request
};

}  // namespace rnnserve::rnnctl::bench
