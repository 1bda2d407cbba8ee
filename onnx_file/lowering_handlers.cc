// SPDX-License-Identifier: Apache-2.0
// Which operators a whole model may have beside its layers, and what reads each.
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "onnx_file/lowering.h"

namespace rnnserve {

Lowering::Handler Lowering::HandlerOf(const onnx::NodeProto& node) {
  static const std::unordered_map<std::string_view, Handler> handlers = [] {
    const std::pair<Handler, std::vector<std::string_view>> lists[] = {
        {&Lowering::Identity, {"Identity"}},
        {&Lowering::Dropout, {"Dropout"}},
        {&Lowering::Cast, {"Cast"}},
        {&Lowering::ShapeOf, {"Shape"}},
        {&Lowering::Gather, {"Gather"}},
        {&Lowering::Slice, {"Slice"}},
        {&Lowering::Split, {"Split"}},
        {&Lowering::Concat, {"Concat"}},
        {&Lowering::Expand, {"Expand", "Tile"}},
        {&Lowering::ConstantOfShape, {"ConstantOfShape"}},
        {&Lowering::ProductOfSizes, {"ReduceProd"}},
        {&Lowering::MatMul, {"MatMul"}},
        {&Lowering::Gemm, {"Gemm"}},
        {&Lowering::PointwiseConv, {"Conv"}},
        {&Lowering::SoftmaxOf, {"Softmax", "LogSoftmax"}},
        {&Lowering::LayerNormalization, {"LayerNormalization"}},
        {&Lowering::BatchNormalization, {"BatchNormalization"}},
        {&Lowering::ArgMax, {"ArgMax", "ArgMin"}},
        {&Lowering::OneHot, {"OneHot"}},
        {&Lowering::PRelu, {"PRelu"}},
        {&Lowering::Composed, {"Mish", "Celu", "Erfc", "ThresholdedRelu"}},
        {&Lowering::Several, {"Sum", "Mean"}},
        {&Lowering::LengthNormalization, {"LpNormalization", "RMSNormalization"}},
        {&Lowering::Pool, {"GlobalMaxPool", "GlobalAveragePool", "MaxPool", "AveragePool"}},
        {&Lowering::TopK, {"TopK"}},
        {&Lowering::Compare, {"Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"}},
        {&Lowering::GroupedNormalization, {"GroupNormalization", "InstanceNormalization"}},
        {&Lowering::Einsum, {"Einsum"}},
        {&Lowering::IsNoNumber, {"IsNaN", "IsInf"}},
        {&Lowering::Function,
         {"Swish",      "Relu",     "Tanh",     "Sigmoid", "Exp",  "Log",       "Sqrt", "Neg",  "Abs",
          "Reciprocal", "Softplus", "Softsign", "Erf",     "Gelu", "LeakyRelu", "Elu",  "Selu", "HardSigmoid",
          "HardSwish",  "Clip",     "Sin",      "Cos",     "Sign", "Floor",     "Ceil", "Round"}},
        {&Lowering::Where, {"Where"}},
        {&Lowering::Range, {"Range"}},
        {&Lowering::ScatterElements, {"ScatterElements"}},
        {&Lowering::GatherLast, {"GatherElements", "GatherND"}},
        {&Lowering::ReverseSequence, {"ReverseSequence"}},
        {&Lowering::Logic, {"Not", "And", "Or", "Xor"}},
        {&Lowering::Move, {"Transpose", "Squeeze", "Unsqueeze", "Reshape", "Flatten"}},
        {&Lowering::Arithmetic, {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"}},
        {&Lowering::Reduce,
         {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare",
          "ReduceLogSumExp"}}};
    std::unordered_map<std::string_view, Handler> made;
    for (const auto& [handler, op_types] : lists) {
      for (const std::string_view op_type : op_types) made.emplace(op_type, handler);
    }
    return made;
  }();
  if (!node.domain().empty() && node.domain() != "ai.onnx") return nullptr;
  const auto found = handlers.find(node.op_type());
  return found == handlers.end() ? nullptr : found->second;
}

}  // namespace rnnserve
