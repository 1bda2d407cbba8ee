// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/lstm_gates.h"

#include <limits>

#include "engine/cpu/activations.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/cpu/lstm_gates.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rnnserve::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// gate += p (.) cell.
template <typename T>
void AddPeephole(size_t width, const T* HWY_RESTRICT p, const T* HWY_RESTRICT cell, T* HWY_RESTRICT gate) {
  const hn::ScalableTag<T> d;
  for (size_t k = 0; k < width; k += hn::Lanes(d)) {
    hn::Store(hn::MulAdd(hn::Load(d, p + k), hn::Load(d, cell + k), hn::Load(d, gate + k)), d, gate + k);
  }
}

// c = F (.) c + i (.) n, and n = c for the way into h().
template <typename T, bool kInputForget>
void UpdateCell(size_t width, const T* HWY_RESTRICT i, const T* HWY_RESTRICT forget, T* HWY_RESTRICT n,
                T* HWY_RESTRICT c) {
  const hn::ScalableTag<T> d;
  const auto one = hn::Set(d, T{1});
  for (size_t k = 0; k < width; k += hn::Lanes(d)) {
    const auto input = hn::Load(d, i + k);
    const auto keep = kInputForget ? hn::Sub(one, input) : hn::Load(d, forget + k);
    const auto cell = hn::MulAdd(keep, hn::Load(d, c + k), hn::Mul(input, hn::Load(d, n + k)));
    hn::Store(cell, d, c + k);
    hn::Store(cell, d, n + k);
  }
}

// h = o (.) cell.
template <typename T>
void Output(size_t width, const T* HWY_RESTRICT o, const T* HWY_RESTRICT cell, T* HWY_RESTRICT h) {
  const hn::ScalableTag<T> d;
  for (size_t k = 0; k < width; k += hn::Lanes(d)) {
    hn::Store(hn::Mul(hn::Load(d, o + k), hn::Load(d, cell + k)), d, h + k);
  }
}

void AddPeepholeFloat(size_t width, const float* p, const float* cell, float* gate) {
  AddPeephole(width, p, cell, gate);
}
void AddPeepholeDouble(size_t width, const double* p, const double* cell, double* gate) {
  AddPeephole(width, p, cell, gate);
}
void UpdateCellFloat(bool input_forget, size_t width, const float* i, const float* forget, float* n, float* c) {
  (input_forget ? UpdateCell<float, true> : UpdateCell<float, false>)(width, i, forget, n, c);
}
void UpdateCellDouble(bool input_forget, size_t width, const double* i, const double* forget, double* n, double* c) {
  (input_forget ? UpdateCell<double, true> : UpdateCell<double, false>)(width, i, forget, n, c);
}
void OutputFloat(size_t width, const float* o, const float* cell, float* h) { Output(width, o, cell, h); }
void OutputDouble(size_t width, const double* o, const double* cell, double* h) { Output(width, o, cell, h); }

}  // namespace HWY_NAMESPACE
}  // namespace rnnserve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rnnserve::cpu {

HWY_EXPORT(AddPeepholeFloat);
HWY_EXPORT(AddPeepholeDouble);
HWY_EXPORT(UpdateCellFloat);
HWY_EXPORT(UpdateCellDouble);
HWY_EXPORT(OutputFloat);
HWY_EXPORT(OutputDouble);

namespace {

// The element-wise parts, chosen once for this machine.
template <typename T>
struct LstmKernels {
  void (*add_peephole)(size_t width, const T* p, const T* cell, T* gate);
  void (*update_cell)(bool input_forget, size_t width, const T* i, const T* forget, T* n, T* c);
  void (*output)(size_t width, const T* o, const T* cell, T* h);
};

template <typename T>
LstmKernels<T> FindKernels();

template <>
LstmKernels<float> FindKernels() {
  return {HWY_DYNAMIC_DISPATCH(AddPeepholeFloat), HWY_DYNAMIC_DISPATCH(UpdateCellFloat),
          HWY_DYNAMIC_DISPATCH(OutputFloat)};
}

template <>
LstmKernels<double> FindKernels() {
  return {HWY_DYNAMIC_DISPATCH(AddPeepholeDouble), HWY_DYNAMIC_DISPATCH(UpdateCellDouble),
          HWY_DYNAMIC_DISPATCH(OutputDouble)};
}

double CellClip(const CellSpec& spec) {
  return spec.clip_cell_input ? spec.clip : std::numeric_limits<double>::infinity();
}

template <typename T>
class LstmStep : public RecurrentStep<T> {
 public:
  explicit LstmStep(const Cell& cell)
      : units_(static_cast<size_t>(cell.spec().hidden_size)),
        width_(PadToLine<T>(units_)),
        input_forget_(cell.spec().input_forget),
        has_peephole_(cell.spec().has_peephole),
        r_(cell.weights<T>().r.data(), 4, units_, units_),
        bias_(SumBiases<T>(cell, 4)),
        peephole_(PadBlocks(cell.weights<T>().p.data(), has_peephole_ ? 3 : 0, units_)),
        f_(cell.spec().activations[0], cell.spec().clip),
        g_(cell.spec().activations[1], cell.spec().clip),
        h_(cell.spec().activations[2], CellClip(cell.spec())),
        kernels_(FindKernels<T>()) {}

  size_t gate_columns() const override { return r_.columns(); }
  const T* input_bias() const override { return bias_.data(); }
  size_t packed_bytes() const override { return r_.bytes() + (bias_.size() + peephole_.size()) * sizeof(T); }

  void Run(const StepRows<T>& rows, Team& team) const override {
    Multiply<T>(rows.count, {rows.h.data, rows.h.stride}, r_, nullptr, rows.gates, team);
    ForRows(rows.count, 5 * width_, team, [&](size_t row) {
      T* gates = rows.gates.data + row * rows.gates.stride;
      T* c = rows.c.data + row * rows.c.stride;
      T* h = rows.h.data + row * rows.h.stride;
      has_peephole_ ? RunPeepholeRow(gates, c, h) : RunRow(gates, c, h);
    });
  }

 private:
  void RunRow(T* gates, T* c, T* h) const {
    f_.Apply(gates, 3 * width_);
    UpdateRow(gates, c);
    OutputRow(gates, h);
  }

  // i and f see the old cell, o the new one. P holds i, o, f.
  void RunPeepholeRow(T* gates, T* c, T* h) const {
    T* o = gates + width_;
    T* forget = gates + 2 * width_;
    kernels_.add_peephole(width_, peephole_.data(), c, gates);
    kernels_.add_peephole(width_, peephole_.data() + 2 * width_, c, forget);
    f_.Apply(gates, width_);
    f_.Apply(forget, width_);
    UpdateRow(gates, c);
    kernels_.add_peephole(width_, peephole_.data() + width_, c, o);
    f_.Apply(o, width_);
    OutputRow(gates, h);
  }

  void UpdateRow(T* gates, T* c) const {
    T* n = gates + 3 * width_;
    g_.Apply(n, width_);
    kernels_.update_cell(input_forget_, width_, gates, gates + 2 * width_, n, c);
  }

  void OutputRow(T* gates, T* h) const {
    T* cell = gates + 3 * width_;
    h_.Apply(cell, width_);
    kernels_.output(width_, gates + width_, cell, h);
  }

  size_t units_;
  size_t width_;
  bool input_forget_;
  bool has_peephole_;
  PackedMatrix<T> r_;
  AlignedBuffer<T> bias_;
  AlignedBuffer<T> peephole_;
  Stage<T> f_;
  Stage<T> g_;
  Stage<T> h_;
  LstmKernels<T> kernels_;
};

}  // namespace

template <typename T>
std::unique_ptr<const RecurrentStep<T>> MakeLstmStep(const Cell& cell) {
  return std::make_unique<LstmStep<T>>(cell);
}

template std::unique_ptr<const RecurrentStep<float>> MakeLstmStep(const Cell&);
template std::unique_ptr<const RecurrentStep<double>> MakeLstmStep(const Cell&);

}  // namespace rnnserve::cpu
#endif  // HWY_ONCE
