// SPDX-License-Identifier: Apache-2.0
// A cell: one direction's equations and weights, immutable. Everything that decides what a step computes, and nothing
// else: two equal cells may share packed weights and batches, from any caller.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/data_type.h"

namespace rnnserve {

enum class CellKind { kLstm, kGru, kRnn };

constexpr int64_t GateCount(CellKind kind) { return kind == CellKind::kLstm ? 4 : kind == CellKind::kGru ? 3 : 1; }

// The activation functions of the ONNX recurrent operators (shared spec, recurrent-operators.md section 6).
enum class ActivationKind {
  kRelu,
  kTanh,
  kSigmoid,
  kAffine,
  kLeakyRelu,
  kThresholdedRelu,
  kScaledTanh,
  kHardSigmoid,
  kElu,
  kSoftsign,
  kSoftplus,
};

struct Activation {
  ActivationKind kind = ActivationKind::kTanh;
  double alpha = 0;  // 0 where the function has none, so that equal functions compare equal
  double beta = 0;
  bool operator==(const Activation&) const = default;
};

// The equations of recurrent-operators.md section 5, without weights.
struct CellSpec {
  CellKind kind = CellKind::kLstm;
  DataType data_type = DataType::kFloat;  // of X and Y; computing is in ComputeType(data_type)
  int64_t input_size = 0;                 // I, may be 0
  int64_t hidden_size = 0;                // H, at least 1
  // f, g, h: LSTM uses three, GRU two, RNN one; the rest is the default value.
  std::array<Activation, 3> activations = {};
  double clip = std::numeric_limits<double>::infinity();  // > 0; infinity: none
  bool clip_cell_input = false;      // LSTM: C is clipped on its way into h(); false where clip is infinite
  bool input_forget = false;         // LSTM: F = 1 - i
  bool linear_before_reset = false;  // GRU
  bool has_peephole = false;         // LSTM: P is used
  bool operator==(const CellSpec&) const = default;
};

// Weights of one direction in ONNX block order (LSTM i, o, f, c; GRU z, r, h; P i, o, f), widened to T.
// T is the compute type of the cell.
template <typename T>
struct CellWeights {
  std::vector<T> w;   // [G*H, I]
  std::vector<T> r;   // [G*H, H]
  std::vector<T> wb;  // [G*H]; zeros if the operator has no B
  std::vector<T> rb;  // [G*H]
  std::vector<T> p;   // [3*H] if has_peephole, else empty
};

class Cell {
 public:
  // `weights` of the spec's compute type, with the sizes above (checked by assertion: engine/op has validated them).
  Cell(CellSpec spec, CellWeights<float> weights);
  Cell(CellSpec spec, CellWeights<double> weights);

  const CellSpec& spec() const { return spec_; }
  // Only that of the compute type is filled.
  const CellWeights<float>& weights_f32() const { return f32_; }
  const CellWeights<double>& weights_f64() const { return f64_; }
  template <typename T>
  const CellWeights<T>& weights() const;

  // SHA-256 of spec and weights, 32 bytes: equal keys, equal cells.
  const std::string& key() const { return key_; }
  // Bytes of the weights held.
  int64_t weight_bytes() const;

 private:
  CellSpec spec_;
  CellWeights<float> f32_;
  CellWeights<double> f64_;
  std::string key_;
};

template <>
inline const CellWeights<float>& Cell::weights<float>() const {
  return f32_;
}
template <>
inline const CellWeights<double>& Cell::weights<double>() const {
  return f64_;
}

using CellPtr = std::shared_ptr<const Cell>;

}  // namespace rnnserve
