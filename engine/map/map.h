// SPDX-License-Identifier: Apache-2.0
// A map: what a model computes of one step of one row before, between and after its recurrent layers. Nothing in it
// looks along time, so rows and steps of all requests may be computed together. A short list of operators over numbered
// values, each written once; plain data.
//
//   logits = Product(y); probabilities = Softmax(logits)
//
//   values   0: 512 numbers, 1: 10000, 2: 10000
//   inputs   0                       ops   {kProduct, in 0, out 1}, {kSoftmax, in 1, out 2}        outputs   2
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/data_type.h"

namespace rnnserve {

// Numbers that a map holds, in its compute type. Only that vector is filled.
struct MapNumbers {
  std::vector<float> f32;
  std::vector<double> f64;

  int64_t size() const { return static_cast<int64_t>(f32.empty() ? f64.size() : f32.size()); }
  int64_t bytes() const { return static_cast<int64_t>(f32.size() * sizeof(float) + f64.size() * sizeof(double)); }
  template <typename T>
  const std::vector<T>& of() const;
};
template <>
inline const std::vector<float>& MapNumbers::of<float>() const {
  return f32;
}
template <>
inline const std::vector<double>& MapNumbers::of<double>() const {
  return f64;
}
using MapNumbersPtr = std::shared_ptr<const MapNumbers>;

// What is held for one row of one step while a map runs.
struct MapValue {
  int64_t width = 1;        // numbers
  bool is_integer = false;  // int64, else the compute type
};

enum class MapOpKind {
  kLookup,      // out = a[in]: a is [rows, width of out]; in: one integer, 0 <= in < rows or counted from the end
  kProduct,     // out = in * a + b, activation: a is [inner, columns], b [columns] or none; by groups of `inner`
  kUnary,       // out = function(in)
  kBinary,      // out = function(in[0], in[1])
  kConstant,    // out = function(in, a), or function(a, in) where reversed: a has the width of in
  kSoftmax,     // by groups of `inner`
  kLogSoftmax,  // by groups of `inner`
  kNormalize,   // by groups of `inner`: (in - mean) / sqrt(variance + alpha) * a + b
  kReduce,      // by groups of `inner`: function over them; out has one number a group
  kArgMax,      // by groups of `inner`: place of the first largest one, or of the last one where reversed
  kTopK,     // by groups of `inner`: the `count` largest, largest first, of equal ones the first; out: numbers, places
  kConcat,   // the inputs one after the other
  kSelect,   // out[k] = in[places[k]]
  kConvert,  // between integers and numbers; numbers are cut off towards zero
};

enum class MapFunction {
  kNone,
  // of one number
  kRelu,
  kTanh,
  kSigmoid,
  kExp,
  kLog,
  kSqrt,
  kNegative,
  kAbsolute,
  kReciprocal,
  kSquare,
  kSoftplus,
  kSoftsign,
  kErf,
  kGelu,         // x / 2 * (1 + erf(x / sqrt(2)))
  kGeluTanh,     // its approximation by tanh
  kSilu,         // x * sigmoid(alpha * x)
  kLeakyRelu,    // alpha * x below 0
  kElu,          // alpha * (exp(x) - 1) below 0
  kSelu,         // beta * (alpha * (exp(x) - 1)) below 0, beta * x above
  kHardSigmoid,  // alpha * x + beta between 0 and 1
  kClip,         // between alpha and beta
  // of two
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kPower,
  kMaximum,
  kMinimum,
  kGreater,  // 1 or 0, as the next ones
  kGreaterOrEqual,
  kLess,
  kLessOrEqual,
  kEqual,
  kWhere,     // the first one where the second is not 0, else 0
  kWhereNot,  // the first one where the second is 0, else 0
  // of many
  kSum,
  kMean,
  kLargest,
  kSmallest,
  // of one number: rounded to the type, as a Cast does
  kToFloat16,
  kToBFloat16,
  kToFloat,
  // of one number; at the end, since models are told apart by these numbers
  kSin,
  kCos,
  kSign,
  kFloor,
  kCeil,
  kRound,  // halves to the even one
};

// What becomes of a value over the steps of a row: all of them, or one number in the end. kLastOfAll: of a row that
// ends before the others what the file has beyond its end (Place::beyond).
enum class OverTime { kEach, kFirst, kLast, kSum, kMean, kLargest, kSmallest, kLastOfAll };

struct MapOp {
  MapOpKind kind = MapOpKind::kUnary;
  MapFunction function = MapFunction::kNone;
  std::vector<int> in = {};   // values that inputs and earlier operators give
  std::vector<int> out = {};  // one; kTopK two
  MapNumbersPtr a = nullptr, b = nullptr;
  int64_t inner = 0;  // numbers that the operator goes along: the last axis
  int64_t count = 0;
  std::vector<int64_t> places = {};
  double alpha = 0, beta = 0;
  bool reversed = false;
};

// Where a value comes from or goes to outside, and as what.
struct MapPort {
  int value = 0;
  DataType type = DataType::kFloat;
};

struct Map {
  DataType compute_type = DataType::kFloat;  // float or double
  std::vector<MapValue> values;
  std::vector<MapPort> inputs;
  std::vector<MapPort> outputs;
  std::vector<MapOp> ops;

  // Multiplications of one step of one row, roughly.
  int64_t Work() const;
  // Bytes of weights, tables and constants.
  int64_t WeightBytes() const;
};
using MapPtr = std::shared_ptr<const Map>;

// "Product 512x10000 + bias, Softmax": what inspect shows.
std::string Describe(const Map& map);

}  // namespace rnnserve
