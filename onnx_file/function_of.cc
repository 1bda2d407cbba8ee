// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/function_of.h"

#include <unordered_map>

namespace rnnserve {

MapFunction FunctionOf(std::string_view op_type) {
  static const std::unordered_map<std::string_view, MapFunction> functions = {
      {"Add", MapFunction::kAdd},
      {"Sub", MapFunction::kSubtract},
      {"Mul", MapFunction::kMultiply},
      {"Div", MapFunction::kDivide},
      {"Pow", MapFunction::kPower},
      {"Sum", MapFunction::kAdd},
      {"Mean", MapFunction::kAdd},
      {"Max", MapFunction::kMaximum},
      {"Min", MapFunction::kMinimum},
      {"Relu", MapFunction::kRelu},
      {"Tanh", MapFunction::kTanh},
      {"Sigmoid", MapFunction::kSigmoid},
      {"Exp", MapFunction::kExp},
      {"Log", MapFunction::kLog},
      {"Sqrt", MapFunction::kSqrt},
      {"Neg", MapFunction::kNegative},
      {"Abs", MapFunction::kAbsolute},
      {"Reciprocal", MapFunction::kReciprocal},
      {"Softplus", MapFunction::kSoftplus},
      {"Softsign", MapFunction::kSoftsign},
      {"Erf", MapFunction::kErf},
      {"Sin", MapFunction::kSin},
      {"Cos", MapFunction::kCos},
      {"Sign", MapFunction::kSign},
      {"Floor", MapFunction::kFloor},
      {"Ceil", MapFunction::kCeil},
      {"Round", MapFunction::kRound},
      {"Gelu", MapFunction::kGelu},
      {"LeakyRelu", MapFunction::kLeakyRelu},
      {"Elu", MapFunction::kElu},
      {"Selu", MapFunction::kSelu},
      {"HardSigmoid", MapFunction::kHardSigmoid},
      {"HardSwish", MapFunction::kHardSigmoid},
      {"Swish", MapFunction::kSilu},
      {"Clip", MapFunction::kClip},
      {"ReduceMean", MapFunction::kMean},
      {"ReduceSum", MapFunction::kSum},
      {"ReduceMax", MapFunction::kLargest},
      {"ReduceMin", MapFunction::kSmallest},
      {"ReduceL1", MapFunction::kSum},
      {"ReduceL2", MapFunction::kSum},
      {"ReduceSumSquare", MapFunction::kSum},
      {"ReduceLogSumExp", MapFunction::kLargest},
      {"Greater", MapFunction::kGreater},
      {"GreaterOrEqual", MapFunction::kGreaterOrEqual},
      {"Less", MapFunction::kLess},
      {"LessOrEqual", MapFunction::kLessOrEqual},
      {"Equal", MapFunction::kEqual}};
  return functions.at(op_type);
}

}  // namespace rnnserve
