// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/gru_gates.h"

#include "engine/cpu/activations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/gru_gates.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rnnserve::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// r becomes r (.) h.
template <typename T>
void ResetState(size_t width, const T* HWY_RESTRICT h, T* HWY_RESTRICT r) {
  const hn::ScalableTag<T> d;
  for (size_t k = 0; k < width; k += hn::Lanes(d)) {
    hn::Store(hn::Mul(hn::Load(d, r + k), hn::Load(d, h + k)), d, r + k);
  }
}

// n += r (.) inner.
template <typename T>
void AddReset(size_t width, const T* HWY_RESTRICT r, const T* HWY_RESTRICT inner, T* HWY_RESTRICT n) {
  const hn::ScalableTag<T> d;
  for (size_t k = 0; k < width; k += hn::Lanes(d)) {
    hn::Store(hn::MulAdd(hn::Load(d, r + k), hn::Load(d, inner + k), hn::Load(d, n + k)), d, n + k);
  }
}

// h = (1 - z) (.) n + z (.) h.
template <typename T>
void Blend(size_t width, const T* HWY_RESTRICT z, const T* HWY_RESTRICT n, T* HWY_RESTRICT h) {
  const hn::ScalableTag<T> d;
  const auto one = hn::Set(d, T{1});
  for (size_t k = 0; k < width; k += hn::Lanes(d)) {
    const auto gate = hn::Load(d, z + k);
    const auto kept = hn::Mul(gate, hn::Load(d, h + k));
    hn::Store(hn::MulAdd(hn::Sub(one, gate), hn::Load(d, n + k), kept), d, h + k);
  }
}

void ResetStateFloat(size_t width, const float* h, float* r) { ResetState(width, h, r); }
void ResetStateDouble(size_t width, const double* h, double* r) { ResetState(width, h, r); }
void AddResetFloat(size_t width, const float* r, const float* inner, float* n) { AddReset(width, r, inner, n); }
void AddResetDouble(size_t width, const double* r, const double* inner, double* n) { AddReset(width, r, inner, n); }
void BlendFloat(size_t width, const float* z, const float* n, float* h) { Blend(width, z, n, h); }
void BlendDouble(size_t width, const double* z, const double* n, double* h) { Blend(width, z, n, h); }

}  // namespace HWY_NAMESPACE
}  // namespace rnnserve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rnnserve::cpu {

HWY_EXPORT(ResetStateFloat);
HWY_EXPORT(ResetStateDouble);
HWY_EXPORT(AddResetFloat);
HWY_EXPORT(AddResetDouble);
HWY_EXPORT(BlendFloat);
HWY_EXPORT(BlendDouble);

namespace {

// The element-wise parts, chosen once for this machine.
template <typename T>
struct GruKernels {
  void (*reset_state)(size_t width, const T* h, T* r);
  void (*add_reset)(size_t width, const T* r, const T* inner, T* n);
  void (*blend)(size_t width, const T* z, const T* n, T* h);
};

template <typename T>
GruKernels<T> FindKernels();

template <>
GruKernels<float> FindKernels() {
  return {HWY_DYNAMIC_DISPATCH(ResetStateFloat), HWY_DYNAMIC_DISPATCH(AddResetFloat), HWY_DYNAMIC_DISPATCH(BlendFloat)};
}

template <>
GruKernels<double> FindKernels() {
  return {HWY_DYNAMIC_DISPATCH(ResetStateDouble), HWY_DYNAMIC_DISPATCH(AddResetDouble),
          HWY_DYNAMIC_DISPATCH(BlendDouble)};
}

template <typename T>
class GruStep : public RecurrentStep<T> {
 public:
  explicit GruStep(const Cell& cell)
      : linear_before_reset_(cell.spec().linear_before_reset),
        units_(static_cast<size_t>(cell.spec().hidden_size)),
        width_(PadToLine<T>(units_)),
        r_zr_(cell.weights<T>().r.data(), 2, units_, units_),
        r_h_(cell.weights<T>().r.data() + 2 * units_ * units_, 1, units_, units_),
        bias_(SumBiases<T>(cell, linear_before_reset_ ? 2 : 3)),
        inner_bias_(PadBlocks(cell.weights<T>().rb.data() + 2 * units_, 1, units_)),
        f_(cell.spec().activations[0], cell.spec().clip),
        g_(cell.spec().activations[1], cell.spec().clip),
        kernels_(FindKernels<T>()) {}

  size_t gate_columns() const override { return (linear_before_reset_ ? 4 : 3) * width_; }
  const T* input_bias() const override { return bias_.data(); }
  size_t packed_bytes() const override {
    return r_zr_.bytes() + r_h_.bytes() + (bias_.size() + inner_bias_.size()) * sizeof(T);
  }

  void Run(const StepRows<T>& rows, Team& team) const override {
    const Rows<T>& gates = rows.gates;
    Multiply<T>(rows.count, Read(rows.h), r_zr_, nullptr, gates, team);
    if (linear_before_reset_) Multiply<T>(rows.count, Read(rows.h), r_h_, inner_bias_.data(), Block(gates, 3), team);
    ForRows(rows.count, 2 * width_, team, [&](size_t row) { ApplyReset(At(gates, row), At(rows.h, row)); });
    if (!linear_before_reset_) {
      Multiply<T>(rows.count, Read(Block(gates, 1)), r_h_, nullptr, Block(gates, 2), team);
    }
    ForRows(rows.count, width_, team, [&](size_t row) { UpdateState(At(gates, row), At(rows.h, row)); });
  }

 private:
  static Rows<const T> Read(Rows<T> rows) { return {rows.data, rows.stride}; }
  static T* At(Rows<T> rows, size_t row) { return rows.data + row * rows.stride; }
  Rows<T> Block(Rows<T> gates, size_t block) const { return {gates.data + block * width_, gates.stride}; }

  void ApplyReset(T* gates, const T* h) const {
    f_.Apply(gates, 2 * width_);
    T* r = gates + width_;
    if (linear_before_reset_) {
      kernels_.add_reset(width_, r, gates + 3 * width_, gates + 2 * width_);
    } else {
      kernels_.reset_state(width_, h, r);
    }
  }

  void UpdateState(T* gates, T* h) const {
    T* n = gates + 2 * width_;
    g_.Apply(n, width_);
    kernels_.blend(width_, gates, n, h);
  }

  bool linear_before_reset_;
  size_t units_;
  size_t width_;
  PackedMatrix<T> r_zr_;
  PackedMatrix<T> r_h_;
  AlignedBuffer<T> bias_;
  AlignedBuffer<T> inner_bias_;
  Stage<T> f_;
  Stage<T> g_;
  GruKernels<T> kernels_;
};

}  // namespace

template <typename T>
std::unique_ptr<const RecurrentStep<T>> MakeGruStep(const Cell& cell) {
  return std::make_unique<GruStep<T>>(cell);
}

template std::unique_ptr<const RecurrentStep<float>> MakeGruStep(const Cell&);
template std::unique_ptr<const RecurrentStep<double>> MakeGruStep(const Cell&);

}  // namespace rnnserve::cpu
#endif  // HWY_ONCE
