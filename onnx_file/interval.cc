// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/interval.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "engine/map/functions.h"

namespace rnnserve {
namespace {

// As a map computes it.
template <typename T>
double Computed(const MapOp& op, double a, std::optional<double> b) {
  const T of = static_cast<T>(a), other = static_cast<T>(b.value_or(0));
  T made = 0;
  if (b) {
    map::Combine(op.function, &of, &other, &made, 1);
  } else if (op.kind == MapOpKind::kReduce) {
    made = map::Reduce(op.function, std::vector<T>(static_cast<size_t>(op.inner), of).data(), op.inner);
  } else {
    map::Apply(op.function, op.alpha, op.beta, &of, &made, 1);
  }
  return static_cast<double>(made);
}

double Compute(DataType type, const MapOp& op, double a, std::optional<double> b = {}) {
  return type == DataType::kDouble ? Computed<double>(op, a, b) : Computed<float>(op, a, b);
}

// Of what goes one way from each of these to the next; where one is NaN nothing is known.
Interval Between(std::initializer_list<double> ends) {
  if (std::ranges::any_of(ends, [](double end) { return std::isnan(end); })) return {};
  return {std::min(ends), std::max(ends)};
}

bool GoesOneWay(MapFunction function) {
  switch (function) {
    case MapFunction::kRelu:
    case MapFunction::kTanh:
    case MapFunction::kSigmoid:
    case MapFunction::kExp:
    case MapFunction::kNegative:
    case MapFunction::kErf:
    case MapFunction::kClip:
    case MapFunction::kToFloat16:
    case MapFunction::kToBFloat16:
    case MapFunction::kToFloat:
    case MapFunction::kAdd:
    case MapFunction::kSubtract:
    case MapFunction::kMultiply:
    case MapFunction::kMaximum:
    case MapFunction::kMinimum:
      return true;
    default:
      return false;
  }
}

Interval OfOne(DataType type, const MapOp& op, const Interval& a) {
  if (a.number()) return Between({Compute(type, op, a.low)});
  if (op.kind == MapOpKind::kReduce || !GoesOneWay(op.function)) return {};
  return Between({Compute(type, op, a.low), Compute(type, op, a.high)});
}

Interval OfTwo(DataType type, const MapOp& op, const Interval& a, const Interval& b) {
  const std::optional<double> first = a.number(), second = b.number();
  if (op.function == MapFunction::kMultiply && (first == 0.0 || second == 0.0)) return Interval::Of(0);
  if (second && op.function == MapFunction::kWhere) return *second != 0 ? a : Interval::Of(0);
  if (second && op.function == MapFunction::kWhereNot) return *second == 0 ? a : Interval::Of(0);
  if (first && second) return Between({Compute(type, op, *first, *second)});
  if (!GoesOneWay(op.function)) return {};
  return Between({Compute(type, op, a.low, b.low), Compute(type, op, a.low, b.high), Compute(type, op, a.high, b.low),
                  Compute(type, op, a.high, b.high)});
}

std::vector<double> Doubles(const MapNumbers& numbers) {
  return numbers.f64.empty() ? std::vector<double>(numbers.f32.begin(), numbers.f32.end()) : numbers.f64;
}

Interval OfNumbers(const MapNumbers& numbers) {
  const std::vector<double> values = Doubles(numbers);
  const bool has_nan = std::ranges::any_of(values, [](double value) { return std::isnan(value); });
  if (values.empty() || has_nan) return {};
  return {*std::ranges::min_element(values), *std::ranges::max_element(values)};
}

// No farther from 0 than the farthest operand, times the largest sum of a column's weights.
Interval OfProduct(const MapOp& op, const Interval& a) {
  const double farthest = std::max(std::abs(a.low), std::abs(a.high));
  if (op.b != nullptr || op.inner < 1 || !std::isfinite(farthest)) return {};
  if (farthest == 0) return Interval::Of(0);
  const std::vector<double> weights = Doubles(*op.a);
  const size_t columns = weights.size() / static_cast<size_t>(op.inner);
  std::vector<double> sums(columns);
  for (size_t k = 0; k < columns * static_cast<size_t>(op.inner); ++k) sums[k % columns] += std::abs(weights[k]);
  constexpr double kRounding = 1.01;
  const double end = kRounding * farthest * (sums.empty() ? 0 : *std::ranges::max_element(sums));
  return Between({-end, end});
}

}  // namespace

Interval IntervalOf(DataType type, const FlowNode& node, const std::vector<Interval>& in) {
  const MapOp& op = node.op;
  if (in.empty() || node.result != 0) return {};
  switch (op.kind) {
    case MapOpKind::kSelect:
      return in[0];
    case MapOpKind::kConvert: {  // of what fits into an int64
      constexpr double kFar = 9e18;
      if (!node.is_integer) return in[0];
      if (!(in[0].low > -kFar && in[0].high < kFar)) return {};
      return {std::trunc(in[0].low), std::trunc(in[0].high)};
    }
    case MapOpKind::kConcat:
      return {std::ranges::min_element(in, {}, &Interval::low)->low,
              std::ranges::max_element(in, {}, &Interval::high)->high};
    case MapOpKind::kBinary:
      return OfTwo(type, op, in[0], in[1]);
    case MapOpKind::kConstant:
      return op.reversed ? OfTwo(type, op, OfNumbers(*op.a), in[0]) : OfTwo(type, op, in[0], OfNumbers(*op.a));
    case MapOpKind::kUnary:
    case MapOpKind::kReduce:
      return OfOne(type, op, in[0]);
    case MapOpKind::kProduct:
      return OfProduct(op, in[0]);
    default:
      return {};
  }
}

}  // namespace rnnserve
