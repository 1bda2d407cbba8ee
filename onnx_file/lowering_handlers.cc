// SPDX-License-Identifier: Apache-2.0
// Which operators a whole model may have beside its layers, and what reads each.
#include <string_view>
#include <unordered_map>

#include "onnx_file/lowering.h"

namespace rnnserve {

Lowering::Handler Lowering::HandlerOf(const onnx::NodeProto& node) {
  static const std::unordered_map<std::string_view, Handler> handlers = [] {
    std::unordered_map<std::string_view, Handler> made = {{"Identity", &Lowering::Identity},
                                                          {"Dropout", &Lowering::Dropout},
                                                          {"Cast", &Lowering::Cast},
                                                          {"Shape", &Lowering::ShapeOf},
                                                          {"Gather", &Lowering::Gather},
                                                          {"Slice", &Lowering::Slice},
                                                          {"Split", &Lowering::Split},
                                                          {"Concat", &Lowering::Concat},
                                                          {"Expand", &Lowering::Expand},
                                                          {"Tile", &Lowering::Expand},
                                                          {"ConstantOfShape", &Lowering::ConstantOfShape},
                                                          {"ReduceProd", &Lowering::ProductOfSizes},
                                                          {"MatMul", &Lowering::MatMul},
                                                          {"Gemm", &Lowering::Gemm},
                                                          {"Conv", &Lowering::PointwiseConv},
                                                          {"Softmax", &Lowering::SoftmaxOf},
                                                          {"LogSoftmax", &Lowering::SoftmaxOf},
                                                          {"LayerNormalization", &Lowering::LayerNormalization},
                                                          {"BatchNormalization", &Lowering::BatchNormalization},
                                                          {"ArgMax", &Lowering::ArgMax},
                                                          {"OneHot", &Lowering::OneHot},
                                                          {"PRelu", &Lowering::PRelu},
                                                          {"Mish", &Lowering::Composed},
                                                          {"Celu", &Lowering::Composed},
                                                          {"Erfc", &Lowering::Composed},
                                                          {"ThresholdedRelu", &Lowering::Composed},
                                                          {"Sum", &Lowering::Several},
                                                          {"Mean", &Lowering::Several},
                                                          {"LpNormalization", &Lowering::LengthNormalization},
                                                          {"RMSNormalization", &Lowering::LengthNormalization},
                                                          {"ArgMin", &Lowering::ArgMax},
                                                          {"GlobalMaxPool", &Lowering::Pool},
                                                          {"GlobalAveragePool", &Lowering::Pool},
                                                          {"MaxPool", &Lowering::Pool},
                                                          {"AveragePool", &Lowering::Pool},
                                                          {"TopK", &Lowering::TopK}};
    for (const char* op : {"Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"}) {
      made.emplace(op, &Lowering::Compare);
    }
    made.emplace("GroupNormalization", &Lowering::GroupedNormalization);
    made.emplace("InstanceNormalization", &Lowering::GroupedNormalization);
    made.emplace("Einsum", &Lowering::Einsum);
    made.emplace("IsNaN", &Lowering::IsNoNumber);
    made.emplace("IsInf", &Lowering::IsNoNumber);
    made.emplace("Swish", &Lowering::Function);
    made.emplace("Where", &Lowering::Where);
    made.emplace("Range", &Lowering::Range);
    made.emplace("ScatterElements", &Lowering::ScatterElements);
    made.emplace("GatherElements", &Lowering::GatherLast);
    made.emplace("GatherND", &Lowering::GatherLast);
    made.emplace("ReverseSequence", &Lowering::ReverseSequence);
    for (const char* op : {"Not", "And", "Or", "Xor"}) made.emplace(op, &Lowering::Logic);
    for (const char* op : {"Transpose", "Squeeze", "Unsqueeze", "Reshape", "Flatten"})
      made.emplace(op, &Lowering::Move);
    for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"}) made.emplace(op, &Lowering::Arithmetic);
    for (const char* op : {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2",
                           "ReduceSumSquare", "ReduceLogSumExp"})
      made.emplace(op, &Lowering::Reduce);
    for (const char* op :
         {"Relu",     "Tanh",     "Sigmoid", "Exp",  "Log",       "Sqrt", "Neg",  "Abs",         "Reciprocal",
          "Softplus", "Softsign", "Erf",     "Gelu", "LeakyRelu", "Elu",  "Selu", "HardSigmoid", "HardSwish",
          "Clip",     "Sin",      "Cos",     "Sign", "Floor",     "Ceil", "Round"}) {
      made.emplace(op, &Lowering::Function);
    }
    return made;
  }();
  if (!node.domain().empty() && node.domain() != "ai.onnx") return nullptr;
  const auto found = handlers.find(node.op_type());
  return found == handlers.end() ? nullptr : found->second;
}

}  // namespace rnnserve
