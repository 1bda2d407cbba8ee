// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/gru_step.h"

#include <cmath>
#include <type_traits>
#include <vector>

#include "engine/cpu/activations.h"
#include "engine/cpu/gru_gates.h"

namespace rnnserve::cpu {
namespace {

template <typename T>
class GruStep : public RecurrentStep<T> {
 public:
  explicit GruStep(const Cell& cell)
      : units_(static_cast<size_t>(cell.spec().hidden_size)),
        width_(PadToLine<T>(units_)),
        f_(cell.spec().activations[0], cell.spec().clip),
        g_(cell.spec().activations[1], cell.spec().clip),
        gates_(FindGruGates<T>()) {}

 protected:
  static GruUnits<T> UnitsOf(const StepRows<T>& rows, const PanelSums<T>& sums, size_t unit) {
    return {sums.count, rows.h.From(unit).Below(sums.first_row), rows.next_h.From(unit).Below(sums.first_row)};
  }

  size_t units_;
  size_t width_;
  ClippedActivation<T> f_;
  ClippedActivation<T> g_;
  GruGates<T> gates_;
};

// linear_before_reset: one product for all blocks.
template <typename T>
class LinearGruStep final : public GruStep<T> {
 public:
  LinearGruStep(const Cell& cell, WeightForm weights)
      : GruStep<T>(cell),
        is_default_(IsDefault(cell.spec())),
        inputs_(cell, 0, 3, 2, weights),
        r_(cell.weights<T>().r.data(), 3, units_, units_, FormOf(cell.spec(), units_, weights), GroupHere(3)),
        bias_(PadBlocks(cell.weights<T>().rb.data() + 2 * units_, 1, units_)) {}

  std::span<const CellInputs<T>> inputs() const override { return {&inputs_, 1}; }
  size_t packed_bytes() const override { return inputs_.bytes() + r_.bytes() + bias_.size() * sizeof(T); }

  void Run(const StepRows<T>& rows, Team& team) const override {
    RunPanels(rows, inputs_, r_, 3 * BlocksOfPanel(rows.count, r_.form()), team, [&](const PanelSums<T>& sums) {
      const size_t blocks = sums.lines / 3, unit = sums.first_line / 3 * kLine<T>;
      const GruUnits<T> units = this->UnitsOf(rows, sums, unit);
      if (is_default_) return gates_.all(units, blocks, sums.inputs, sums.state, bias_.data() + unit);
      for (size_t block = 0; block < blocks; ++block) {
        const size_t column = 3 * block * kLine<T>, own = block * kLine<T>;
        RunGates({units.count, units.h.From(own), units.next_h.From(own)}, sums.inputs.From(column),
                 sums.state.From(column), bias_.data() + unit + own, sums.by_line);
      }
    });
  }

 private:
  using GruStep<T>::units_, GruStep<T>::width_, GruStep<T>::f_, GruStep<T>::g_, GruStep<T>::gates_;

  static bool IsDefault(const CellSpec& spec) {
    return spec.activations[0].kind == ActivationKind::kSigmoid && spec.activations[1].kind == ActivationKind::kTanh &&
           std::isinf(spec.clip);
  }

  void RunGates(const GruUnits<T>& units, Rows<const T> inputs, Rows<const T> state, const T* bias, T* by_line) const {
    const size_t line = units.count * kLine<T>;
    f_.ApplyToSums({units.count, 2, inputs, state, by_line, kLine<T>, line});
    gates_.merge(units.count, inputs, state, bias, by_line);
    g_.Apply(by_line + 2 * line, line);
    gates_.blend(units, {by_line, kLine<T>}, by_line + 2 * line);
  }

  bool is_default_;
  CellInputs<T> inputs_;
  PackedMatrix<T> r_;
  AlignedBuffer<T> bias_;
};

// The reset state of all units goes through a product of its own.
template <typename T>
class ResetGruStep final : public GruStep<T> {
 public:
  ResetGruStep(const Cell& cell, WeightForm weights)
      : GruStep<T>(cell),
        r_zr_(cell.weights<T>().r.data(), 2, units_, units_, FormOf(cell.spec(), units_, weights), GroupHere(4)),
        r_h_(cell.weights<T>().r.data() + 2 * units_ * units_, 1, units_, units_, r_zr_.form(), GroupHere(4)) {
    inputs_.emplace_back(cell, 0, 2, 3, weights);
    inputs_.emplace_back(cell, 2, 1, 3, weights);
  }

  std::span<const CellInputs<T>> inputs() const override { return inputs_; }
  size_t scratch_columns() const override { return 2 * width_; }
  size_t packed_bytes() const override {
    return inputs_[0].bytes() + inputs_[1].bytes() + r_zr_.bytes() + r_h_.bytes();
  }

  void Run(const StepRows<T>& rows, Team& team) const override {
    const Rows<T> keep = rows.scratch, reset = rows.scratch.From(width_);
    Reset(rows, keep, reset, team);
    if constexpr (std::is_same_v<T, float>) {
      // As it is where h is: where parts do not pay.
      const bool is_plain = r_h_.form().has_parts() && rows.h.prepared == nullptr;
      Factors<T> factors = is_plain ? Factors<T>{reset.data, reset.stride}
                                    : Prepare(r_h_.form(), units_, rows.count, units_, reset, rows.prepared_scratch);
      factors.one_by_tiles = rows.h.one_by_tiles;
      Blend(rows, keep, factors, team);
    } else {
      Blend(rows, keep, {reset.data, reset.stride}, team);
    }
  }

 private:
  using GruStep<T>::units_, GruStep<T>::width_, GruStep<T>::f_, GruStep<T>::g_, GruStep<T>::gates_;

  // Rows of z and of r (.) h; two units' lines at once.
  void Reset(const StepRows<T>& rows, Rows<T> keep, Rows<T> reset, Team& team) const {
    RunPanels(rows, inputs_[0], r_zr_, kPanelLines, team, [&](const PanelSums<T>& sums) {
      const size_t line = sums.count * kLine<T>;
      f_.ApplyToSums({sums.count, sums.lines, sums.inputs, sums.state, sums.by_line, kLine<T>, line});
      const Rows<T> own_keep = keep.Below(sums.first_row), own_reset = reset.Below(sums.first_row);
      for (size_t k = 0; k < sums.lines; k += 2) {
        const size_t unit = (sums.first_line + k) / 2 * kLine<T>;
        gates_.reset(this->UnitsOf(rows, sums, unit), sums.by_line + k * line, own_keep.From(unit),
                     own_reset.From(unit));
      }
    });
  }

  // A few lines of different units at once.
  void Blend(const StepRows<T>& rows, Rows<const T> keep, const Factors<T>& reset, Team& team) const {
    StepRows<T> of_reset = rows;
    of_reset.h = reset;
    if (rows.inputs.data != nullptr) of_reset.inputs = rows.inputs.From(inputs_[0].columns());
    RunPanels(of_reset, inputs_[1], r_h_, kPanelLines, team, [&](const PanelSums<T>& sums) {
      const size_t line = sums.count * kLine<T>;
      g_.ApplyToSums({sums.count, sums.lines, sums.inputs, sums.state, sums.by_line, kLine<T>, line});
      const Rows<const T> own_keep = keep.Below(sums.first_row);
      for (size_t k = 0; k < sums.lines; ++k) {
        const size_t unit = (sums.first_line + k) * kLine<T>;
        gates_.blend(this->UnitsOf(rows, sums, unit), own_keep.From(unit), sums.by_line + k * line);
      }
    });
  }

  std::vector<CellInputs<T>> inputs_;  // of z and r, of h
  PackedMatrix<T> r_zr_;
  PackedMatrix<T> r_h_;
};

}  // namespace

template <typename T>
std::unique_ptr<const RecurrentStep<T>> MakeGruStep(const Cell& cell, WeightForm weights) {
  if (cell.spec().linear_before_reset) return std::make_unique<LinearGruStep<T>>(cell, weights);
  return std::make_unique<ResetGruStep<T>>(cell, weights);
}

template std::unique_ptr<const RecurrentStep<float>> MakeGruStep(const Cell&, WeightForm);
template std::unique_ptr<const RecurrentStep<double>> MakeGruStep(const Cell&, WeightForm);

}  // namespace rnnserve::cpu
