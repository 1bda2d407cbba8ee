// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/support/remembering_cell.h"

#include <string>

namespace rnnserve {

OperatorDef RememberingOperator(int64_t hidden) {
  OperatorDef op;
  op.op_type = "RNN";
  op.version = 14;
  op.attributes["hidden_size"] = hidden;
  op.attributes["activations"] = std::vector<std::string>{"Affine"};
  op.attributes["activation_alpha"] = std::vector<float>{1};
  op.attributes["activation_beta"] = std::vector<float>{0};
  return op;
}

std::vector<OwnedTensor> RememberingWeights(int64_t hidden, DataType type) {
  const auto h = static_cast<size_t>(hidden);
  std::vector<double> w(h), r(h * h);
  w[0] = 1;
  for (size_t k = 1; k < h; ++k) r[k * h + k - 1] = 1;
  return {MakeTensor("W", type, {1, hidden, 1}, w), MakeTensor("R", type, {1, hidden, hidden}, r)};
}

}  // namespace rnnserve
