// SPDX-License-Identifier: Apache-2.0
#include "onnx_file/interval.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "engine/map/functions.h"

namespace rnnserve {
namespace {

std::vector<double> Doubles(const MapNumbers& numbers) {
  return numbers.f64.empty() ? std::vector<double>(numbers.f32.begin(), numbers.f32.end()) : numbers.f64;
}

// By groups of op.inner.
template <typename T>
void ComputeGroup(const MapOp& op, const T* x, T* y) {
  if (op.kind == MapOpKind::kReduce) {
    *y = map::Reduce(op.function, x, op.inner);
  } else if (op.kind == MapOpKind::kArgMax) {
    *y = static_cast<T>(map::ArgMax(x, op.inner, op.reversed));
  } else if (op.kind == MapOpKind::kNormalize) {
    map::Normalize(x, y, op.inner, op.alpha, op.a->of<T>().data(), op.b == nullptr ? nullptr : op.b->of<T>().data());
  } else if (op.kind != MapOpKind::kProduct) {
    map::Softmax(x, y, op.inner, op.kind == MapOpKind::kLogSoftmax);
  } else {
    const T* weights = op.a->of<T>().data();
    const int64_t columns = op.a->size() / op.inner;
    if (op.b != nullptr) std::copy_n(op.b->of<T>().data(), columns, y);
    for (int64_t k = 0; k < op.inner; ++k) {
      for (int64_t column = 0; column < columns; ++column) y[column] += x[k] * *weights++;
    }
    if (op.function != MapFunction::kNone) map::Apply(op.function, op.alpha, op.beta, y, y, columns);
  }
}

// As a map computes it; `b` of two operands.
template <typename T>
std::vector<double> Computed(const MapOp& op, const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<T> of(a.begin(), a.end()), other(b.begin(), b.end());
  std::vector<T> made(of.size());
  const auto count = static_cast<int64_t>(of.size());
  if (!other.empty()) {
    map::Combine(op.function, of.data(), other.data(), made.data(), count);
  } else if (op.kind == MapOpKind::kUnary) {
    map::Apply(op.function, op.alpha, op.beta, of.data(), made.data(), count);
  } else {
    const int64_t groups = count / op.inner;
    const bool is_one = op.kind == MapOpKind::kReduce || op.kind == MapOpKind::kArgMax;
    const int64_t each = is_one ? 1 : op.kind == MapOpKind::kProduct ? op.a->size() / op.inner : op.inner;
    made.assign(static_cast<size_t>(groups * each), 0);
    for (int64_t k = 0; k < groups; ++k) ComputeGroup(op, of.data() + k * op.inner, made.data() + k * each);
  }
  return {made.begin(), made.end()};
}

std::vector<double> Compute(DataType type, const MapOp& op, const std::vector<double>& a,
                            const std::vector<double>& b = {}) {
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
    case MapFunction::kSign:
    case MapFunction::kFloor:
    case MapFunction::kCeil:
    case MapFunction::kRound:
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

std::vector<double> Ends(const Intervals& of, double Interval::*end) {
  std::vector<double> ends;
  for (const Interval& one : of) ends.push_back(one.*end);
  return ends;
}

bool IsKnown(const Intervals& of) {
  return std::ranges::all_of(of, [](const Interval& one) { return one.number().has_value(); });
}

Intervals OfOne(DataType type, const FlowNode& node, const Intervals& a) {
  Intervals made(static_cast<size_t>(node.width));
  if (!IsKnown(a) && !(node.op.kind == MapOpKind::kUnary && GoesOneWay(node.op.function))) return made;
  const std::vector<double> low = Compute(type, node.op, Ends(a, &Interval::low));
  const std::vector<double> high = Compute(type, node.op, Ends(a, &Interval::high));
  for (size_t k = 0; k < made.size(); ++k) made[k] = Between({low[k], high[k]});
  return made;
}

bool IsInfinite(std::optional<double> number) { return number && std::isinf(*number); }

Intervals OfTwo(DataType type, const MapOp& op, const Intervals& a, const Intervals& b) {
  const std::vector<double> a_low = Ends(a, &Interval::low), a_high = Ends(a, &Interval::high);
  const std::vector<double> b_low = Ends(b, &Interval::low), b_high = Ends(b, &Interval::high);
  const std::vector<double> ends[] = {Compute(type, op, a_low, b_low), Compute(type, op, a_low, b_high),
                                      Compute(type, op, a_high, b_low), Compute(type, op, a_high, b_high)};
  Intervals made(a.size());
  for (size_t k = 0; k < made.size(); ++k) {
    const std::optional<double> first = a[k].number(), second = b[k].number();
    const bool hides = (first == 0.0 && !IsInfinite(second)) || (second == 0.0 && !IsInfinite(first));  // not NaN
    if (op.function == MapFunction::kMultiply && hides) {
      made[k] = Interval::Of(0);
    } else if (second && (op.function == MapFunction::kWhere || op.function == MapFunction::kWhereNot)) {
      made[k] = (*second != 0) == (op.function == MapFunction::kWhere) ? a[k] : Interval::Of(0);
    } else if ((first && second) || GoesOneWay(op.function)) {
      made[k] = Between({ends[0][k], ends[1][k], ends[2][k], ends[3][k]});
    }
  }
  return made;
}

Intervals OfNumbers(const MapNumbers& numbers) {
  Intervals made;
  for (const double number : Doubles(numbers)) made.push_back(Between({number}));
  return made;
}

// No farther from 0 than the farthest operand, times the largest sum of a column's weights.
Interval OfProduct(const MapOp& op, const Intervals& a) {
  double farthest = 0;
  for (const Interval& one : a) farthest = std::max({farthest, std::abs(one.low), std::abs(one.high)});
  if (op.b != nullptr || !std::isfinite(farthest)) return {};
  const std::vector<double> weights = Doubles(*op.a);
  const size_t columns = weights.size() / static_cast<size_t>(op.inner);
  std::vector<double> sums(columns);
  for (size_t k = 0; k < columns * static_cast<size_t>(op.inner); ++k) sums[k % columns] += std::abs(weights[k]);
  constexpr double kRounding = 1.01;
  const double end = kRounding * farthest * (sums.empty() ? 0 : *std::ranges::max_element(sums));
  return Between({-end, end});
}

// `inner` numbers, made of a part of each operand, as often as fills the record.
Intervals Joined(const FlowNode& node, const std::vector<const Intervals*>& in) {
  Intervals made;
  const auto times = static_cast<size_t>(node.width / node.op.inner);
  for (size_t k = 0; k < times; ++k) {
    for (const Intervals* list : in) {
      const auto part = static_cast<std::ptrdiff_t>(list->size() / times), from = static_cast<std::ptrdiff_t>(k) * part;
      made.insert(made.end(), list->begin() + from, list->begin() + from + part);
    }
  }
  return made;
}

}  // namespace

Intervals IntervalsOf(DataType type, const FlowNode& node, const std::vector<const Intervals*>& in) {
  const MapOp& op = node.op;
  Intervals made(static_cast<size_t>(node.width));
  if (in.empty() || node.result != 0) return made;
  switch (op.kind) {
    case MapOpKind::kSelect:
      for (size_t k = 0; k < made.size(); ++k) made[k] = (*in[0])[static_cast<size_t>(op.places[k])];
      return made;
    case MapOpKind::kConvert:  // of what fits into an int64
      for (size_t k = 0; k < made.size(); ++k) {
        constexpr double kFar = 9e18;
        const Interval& of = (*in[0])[k];
        if (!node.is_integer) made[k] = of;
        if (node.is_integer && of.low > -kFar && of.high < kFar) made[k] = {std::trunc(of.low), std::trunc(of.high)};
      }
      return made;
    case MapOpKind::kConcat:
      return Joined(node, in);
    case MapOpKind::kBinary:
      return OfTwo(type, op, *in[0], *in[1]);
    case MapOpKind::kConstant:
      return op.reversed ? OfTwo(type, op, OfNumbers(*op.a), *in[0]) : OfTwo(type, op, *in[0], OfNumbers(*op.a));
    case MapOpKind::kProduct:
      if (op.inner < 1) return made;
      if (!IsKnown(*in[0])) return Intervals(made.size(), OfProduct(op, *in[0]));
      [[fallthrough]];
    case MapOpKind::kUnary:
    case MapOpKind::kReduce:
    case MapOpKind::kArgMax:
    case MapOpKind::kSoftmax:
    case MapOpKind::kLogSoftmax:
    case MapOpKind::kNormalize:
      return OfOne(type, node, *in[0]);
    default:
      return made;
  }
}

}  // namespace rnnserve
