// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/support/naive_operator.h"

#include <cmath>

namespace rnnserve {
namespace {

using Real = long double;

// A tensor as sent; reads as zero where it is absent.
class Reader {
 public:
  Reader(const RandomOperator& op, const std::string& onnx_name) {
    if (const OwnedTensor* tensor = op.Find(InputName(op, onnx_name))) {
      values_ = tensor->Values();
      present_ = true;
    }
  }
  bool present() const { return present_; }
  Real operator[](int64_t index) const { return present_ ? values_[static_cast<size_t>(index)] : 0.0L; }

 private:
  bool present_ = false;
  std::vector<double> values_;
};

Real Function(const MeantFunction& f, Real x) {
  const Real a = f.alpha, b = f.beta;
  if (std::isnan(x)) return x;
  if (f.name == "Relu") return x > 0 ? x : 0;
  if (f.name == "Tanh") return std::tanh(x);
  if (f.name == "Sigmoid") return x > 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
  if (f.name == "Affine") return a * x + b;
  if (f.name == "LeakyRelu") return x >= 0 ? x : a * x;
  if (f.name == "ThresholdedRelu") return x >= a ? x : 0;
  if (f.name == "ScaledTanh") return a * std::tanh(b * x);
  if (f.name == "HardSigmoid") return std::fmin(std::fmax(a * x + b, 0), 1);
  if (f.name == "Elu") return x >= 0 ? x : a * std::expm1(x);
  if (f.name == "Softsign") return std::isinf(x) ? std::copysign(1.0L, x) : x / (1 + std::fabs(x));
  if (f.name == "Softplus") return x > 50 ? x : std::log1p(std::exp(x));
  return std::nanl("");
}

class Run {
 public:
  Run(const RandomOperator& op, const RunOptions& options)
      : op_(op),
        clip_cell_(!op.openvino && options.clip_cell_input),
        keep_initial_(options.empty_row_state == EmptyRowState::kInitial),
        x_(op, "X"),
        w_(op, "W"),
        r_(op, "R"),
        b_(op, "B"),
        h0_(op, "initial_h"),
        c0_(op, "initial_c"),
        p_(op, "P") {}

  std::map<std::string, std::vector<double>> All() {
    const auto d = static_cast<size_t>(op_.directions), n = static_cast<size_t>(op_.rows);
    const auto t = static_cast<size_t>(op_.steps), h = static_cast<size_t>(op_.hidden_size);
    y_.assign(t * d * n * h, 0);
    yh_.assign(d * n * h, 0);
    yc_.assign(d * n * h, 0);
    for (int64_t dir = 0; dir < op_.directions; ++dir) {
      for (int64_t row = 0; row < op_.rows; ++row) Row(dir, row);
    }
    std::map<std::string, std::vector<double>> outputs = {{"Y", y_}, {OutputName(op_, "Y_h"), yh_}};
    if (op_.kind == CellKind::kLstm) outputs[OutputName(op_, "Y_c")] = yc_;
    return outputs;
  }

 private:
  int64_t H() const { return op_.hidden_size; }
  int64_t Gates() const { return GateCount(op_.kind); }
  bool BatchFirst() const { return op_.openvino || op_.layout == 1; }

  // Index functions of the tables in sections 2 and 13.
  int64_t XAt(int64_t t, int64_t n, int64_t i) const {
    return BatchFirst() ? (n * op_.steps + t) * op_.input_size + i : (t * op_.rows + n) * op_.input_size + i;
  }
  int64_t StateAt(int64_t d, int64_t n, int64_t u) const {
    return BatchFirst() ? (n * op_.directions + d) * H() + u : (d * op_.rows + n) * H() + u;
  }
  int64_t YAt(int64_t t, int64_t d, int64_t n, int64_t u) const {
    if (op_.openvino) return ((n * op_.directions + d) * op_.steps + t) * H() + u;
    if (op_.layout == 1) return ((n * op_.steps + t) * op_.directions + d) * H() + u;
    return ((t * op_.directions + d) * op_.rows + n) * H() + u;
  }

  // Where the operator keeps a gate: LSTM "iofc" (ONNX) or "fico" (OpenVINO), GRU "zrh", RNN "s".
  int64_t Block(char gate) const {
    const std::string order = op_.kind == CellKind::kLstm  ? (op_.openvino ? "fico" : "iofc")
                              : op_.kind == CellKind::kGru ? "zrh"
                                                           : "s";
    return static_cast<int64_t>(order.find(gate));
  }
  Real W(char gate, int64_t u, int64_t t, int64_t n) const {
    Real sum = 0;
    for (int64_t i = 0; i < op_.input_size; ++i) {
      sum += w_[(d_ * Gates() * H() + Block(gate) * H() + u) * op_.input_size + i] * x_[XAt(t, n, i)];
    }
    return sum;
  }
  Real R(char gate, int64_t u, const std::vector<Real>& h) const {
    Real sum = 0;
    for (int64_t k = 0; k < H(); ++k) {
      sum += r_[(d_ * Gates() * H() + Block(gate) * H() + u) * H() + k] * h[static_cast<size_t>(k)];
    }
    return sum;
  }
  bool FourPartBias() const { return op_.openvino && op_.kind == CellKind::kGru && op_.linear_before_reset; }
  Real Wb(char gate, int64_t u) const {
    const int64_t parts = op_.openvino ? (FourPartBias() ? 4 : Gates()) : 2 * Gates();
    return b_[d_ * parts * H() + Block(gate) * H() + u];
  }
  Real Rb(char gate, int64_t u) const {
    if (FourPartBias()) return gate == 'h' ? b_[d_ * 4 * H() + 3 * H() + u] : 0.0L;
    if (op_.openvino) return 0;
    return b_[d_ * 2 * Gates() * H() + (Gates() + Block(gate)) * H() + u];
  }
  Real P(int64_t block, int64_t u) const { return p_[d_ * 3 * H() + block * H() + u]; }
  Real K(Real v) const {
    if (std::isnan(v)) return v;
    return std::fmin(std::fmax(v, -static_cast<Real>(op_.clip)), static_cast<Real>(op_.clip));
  }
  Real F(size_t k, Real v) const { return Function(op_.functions[static_cast<size_t>(d_)][k], v); }

  void Row(int64_t d, int64_t n) {
    d_ = d;
    std::vector<Real> h, c;
    for (int64_t u = 0; u < H(); ++u) {
      h.push_back(h0_[StateAt(d, n, u)]);
      c.push_back(c0_[StateAt(d, n, u)]);
    }
    const int64_t length = op_.lengths[static_cast<size_t>(n)];
    if (length == 0 && !keep_initial_) {
      h.assign(h.size(), 0);
      c.assign(c.size(), 0);
    }
    const bool backward = op_.direction == Direction::kReverse || d == 1;
    for (int64_t k = 0; k < length; ++k) {
      const int64_t t = backward ? length - 1 - k : k;
      Step(t, n, h, c);
      for (int64_t u = 0; u < H(); ++u)
        y_[static_cast<size_t>(YAt(t, d, n, u))] = static_cast<double>(h[static_cast<size_t>(u)]);
    }
    for (int64_t u = 0; u < H(); ++u) {
      yh_[static_cast<size_t>(StateAt(d, n, u))] = static_cast<double>(h[static_cast<size_t>(u)]);
      yc_[static_cast<size_t>(StateAt(d, n, u))] = static_cast<double>(c[static_cast<size_t>(u)]);
    }
  }

  void Step(int64_t t, int64_t n, std::vector<Real>& h, std::vector<Real>& c) const {
    const std::vector<Real> old_h = h;
    std::vector<Real> gated = h;
    const auto all = [&](char gate, int64_t u) {
      return W(gate, u, t, n) + R(gate, u, old_h) + Wb(gate, u) + Rb(gate, u);
    };
    if (op_.kind == CellKind::kGru) {
      for (int64_t u = 0; u < H(); ++u) gated[static_cast<size_t>(u)] *= F(0, K(all('r', u)));
    }
    for (int64_t u = 0; u < H(); ++u) {
      const auto k = static_cast<size_t>(u);
      if (op_.kind == CellKind::kRnn) {
        h[k] = F(0, K(all('s', u)));
      } else if (op_.kind == CellKind::kGru) {
        const Real z = F(0, K(all('z', u)));
        Real v = W('h', u, t, n) + Wb('h', u);
        if (op_.linear_before_reset) {
          v += F(0, K(all('r', u))) * (R('h', u, old_h) + Rb('h', u));
        } else {
          v += R('h', u, gated) + Rb('h', u);
        }
        h[k] = (1 - z) * F(1, K(v)) + z * old_h[k];
      } else {
        const Real old_c = c[k];
        const Real i = F(0, K(all('i', u) + (p_.present() ? P(0, u) * old_c : 0)));
        const Real f = op_.input_forget ? 1 - i : F(0, K(all('f', u) + (p_.present() ? P(2, u) * old_c : 0)));
        c[k] = f * old_c + i * F(1, K(all('c', u)));
        const Real o = F(0, K(all('o', u) + (p_.present() ? P(1, u) * c[k] : 0)));
        h[k] = o * F(2, clip_cell_ ? K(c[k]) : c[k]);
      }
    }
  }

  const RandomOperator& op_;
  bool clip_cell_, keep_initial_;
  Reader x_, w_, r_, b_, h0_, c0_, p_;
  int64_t d_ = 0;
  std::vector<double> y_, yh_, yc_;
};

}  // namespace

std::map<std::string, std::vector<double>> RunNaively(const RandomOperator& op, const RunOptions& options) {
  return Run(op, options).All();
}

RandomOperator MakeTameOperator(std::mt19937_64& random, DataType type, const Pinned& pinned,
                                const std::function<bool(const RandomOperator&)>& accepts) {
  constexpr double kLargest = 100;
  for (;;) {
    RandomOperator op = MakeRandomOperator(random, type, pinned);
    if (accepts != nullptr && !accepts(op)) continue;
    bool tame = true;
    for (const auto& [name, values] : RunNaively(op)) {
      for (double value : values) tame = tame && std::fabs(value) <= kLargest;
    }
    if (tame) return op;
  }
}

}  // namespace rnnserve
