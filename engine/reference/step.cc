// SPDX-License-Identifier: Apache-2.0
#include "engine/reference/step.h"

#include "engine/reference/activation.h"

namespace rnnserve {
namespace {

// NaN is in no order with the bounds and passes.
double Clip(const CellSpec& spec, double v) { return v < -spec.clip ? -spec.clip : v > spec.clip ? spec.clip : v; }

// One direction's weights by gate and unit, all in double.
template <typename T>
class Gates {
 public:
  explicit Gates(const Cell& cell)
      : weights_(cell.weights<T>()),
        hidden_size_(static_cast<size_t>(cell.spec().hidden_size)),
        input_size_(static_cast<size_t>(cell.spec().input_size)) {}

  // Row `unit` of W_gate times x.
  double Wx(size_t gate, size_t unit, std::span<const double> x) const {
    return Dot(weights_.w, (gate * hidden_size_ + unit) * input_size_, x);
  }
  double Rh(size_t gate, size_t unit, std::span<const double> h) const {
    return Dot(weights_.r, (gate * hidden_size_ + unit) * hidden_size_, h);
  }
  double Wb(size_t gate, size_t unit) const { return static_cast<double>(weights_.wb[gate * hidden_size_ + unit]); }
  double Rb(size_t gate, size_t unit) const { return static_cast<double>(weights_.rb[gate * hidden_size_ + unit]); }
  double Pre(size_t gate, size_t unit, std::span<const double> x, std::span<const double> h) const {
    return Wx(gate, unit, x) + Rh(gate, unit, h) + Wb(gate, unit) + Rb(gate, unit);
  }
  // Without peepholes nothing is added, not even 0 times an infinite cell.
  double Peephole(size_t block, size_t unit, double c) const {
    return weights_.p.empty() ? 0 : static_cast<double>(weights_.p[block * hidden_size_ + unit]) * c;
  }

 private:
  static double Dot(const std::vector<T>& matrix, size_t first, std::span<const double> v) {
    double sum = 0;
    for (size_t k = 0; k < v.size(); ++k) sum += static_cast<double>(matrix[first + k]) * v[k];
    return sum;
  }

  const CellWeights<T>& weights_;
  size_t hidden_size_;
  size_t input_size_;
};

template <typename T>
void RnnStep(const CellSpec& spec, const Gates<T>& gates, std::span<const double> x, std::vector<double>& h) {
  std::vector<double> next(h.size());
  for (size_t u = 0; u < h.size(); ++u) next[u] = Apply(spec.activations[0], Clip(spec, gates.Pre(0, u, x, h)));
  h = std::move(next);
}

template <typename T>
void GruStep(const CellSpec& spec, const Gates<T>& gates, std::span<const double> x, std::vector<double>& h) {
  constexpr size_t kZ = 0, kR = 1, kH = 2;
  const Activation& f = spec.activations[0];
  const Activation& g = spec.activations[1];
  std::vector<double> r(h.size()), reset_h(h.size()), next(h.size());
  for (size_t u = 0; u < h.size(); ++u) {
    r[u] = Apply(f, Clip(spec, gates.Pre(kR, u, x, h)));
    reset_h[u] = r[u] * h[u];
  }
  for (size_t u = 0; u < h.size(); ++u) {
    const double z = Apply(f, Clip(spec, gates.Pre(kZ, u, x, h)));
    const double inner = spec.linear_before_reset
                             ? gates.Wx(kH, u, x) + r[u] * (gates.Rh(kH, u, h) + gates.Rb(kH, u)) + gates.Wb(kH, u)
                             : gates.Pre(kH, u, x, reset_h);
    const double n = Apply(g, Clip(spec, inner));
    next[u] = (1 - z) * n + z * h[u];
  }
  h = std::move(next);
}

template <typename T>
void LstmStep(const CellSpec& spec, const Gates<T>& gates, std::span<const double> x, std::vector<double>& h,
              std::vector<double>& c) {
  constexpr size_t kI = 0, kO = 1, kF = 2, kC = 3;      // blocks of W, R, Wb, Rb
  constexpr size_t kPeepI = 0, kPeepO = 1, kPeepF = 2;  // blocks of P
  const Activation& f = spec.activations[0];
  std::vector<double> next(h.size());
  for (size_t u = 0; u < h.size(); ++u) {
    const double i = Apply(f, Clip(spec, gates.Pre(kI, u, x, h) + gates.Peephole(kPeepI, u, c[u])));
    const double forget =
        spec.input_forget ? 1 - i : Apply(f, Clip(spec, gates.Pre(kF, u, x, h) + gates.Peephole(kPeepF, u, c[u])));
    const double n = Apply(spec.activations[1], Clip(spec, gates.Pre(kC, u, x, h)));
    c[u] = forget * c[u] + i * n;
    const double o = Apply(f, Clip(spec, gates.Pre(kO, u, x, h) + gates.Peephole(kPeepO, u, c[u])));
    next[u] = o * Apply(spec.activations[2], spec.clip_cell_input ? Clip(spec, c[u]) : c[u]);
  }
  h = std::move(next);
}

template <typename T>
void StepOf(const Cell& cell, std::span<const double> x, std::vector<double>& h, std::vector<double>& c) {
  const Gates<T> gates(cell);
  switch (cell.spec().kind) {
    case CellKind::kRnn:
      return RnnStep(cell.spec(), gates, x, h);
    case CellKind::kGru:
      return GruStep(cell.spec(), gates, x, h);
    case CellKind::kLstm:
      return LstmStep(cell.spec(), gates, x, h, c);
  }
}

}  // namespace

void Step(const Cell& cell, std::span<const double> x, std::vector<double>& h, std::vector<double>& c) {
  if (ComputeType(cell.spec().data_type) == DataType::kDouble) return StepOf<double>(cell, x, h, c);
  StepOf<float>(cell, x, h, c);
}

}  // namespace rnnserve
