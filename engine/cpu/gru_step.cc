// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/gru_step.h"

#include <algorithm>
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
        r_(cell.weights<T>().r.data(), 3, units_, units_, FormOf(cell.spec(), units_, weights), 3),
        bias_(PadBlocks(cell.weights<T>().rb.data() + 2 * units_, 1, units_)) {}

  std::span<const CellInputs<T>> inputs() const override { return {&inputs_, 1}; }
  size_t packed_bytes() const override { return inputs_.bytes() + r_.bytes() + bias_.size() * sizeof(T); }

  void Run(const StepRows<T>& rows, Team& team) const override {
    const size_t all = width_ / kLine<T>, most = BlocksOfPanel(rows.count, r_.form());
    ForPanels((all + most - 1) / most, StepWork(rows, inputs_, r_), rows.backwards, team, [&](size_t panel) {
      PanelSums<T> sums;
      const size_t first = panel * most, blocks = std::min(most, all - first), unit = first * kLine<T>;
      const Rows<const T> inputs = inputs_.Find(rows.count, rows.inputs, rows.x, 3 * first, 3 * blocks, sums.inputs);
      const Rows<T> state = MultiplyState(rows.count, rows.h, r_, 3 * first, 3 * blocks, sums.state);
      const GruUnits<T> units = {rows.count, rows.h.From(unit), rows.next_h.From(unit)};
      if (is_default_) return gates_.all(units, blocks, inputs, state, bias_.data() + unit);
      for (size_t block = 0; block < blocks; ++block) {
        const size_t column = 3 * block * kLine<T>, own = block * kLine<T>;
        RunGates({rows.count, units.h.From(own), units.next_h.From(own)}, inputs.From(column), state.From(column),
                 bias_.data() + unit + own, sums.by_line);
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
        r_zr_(cell.weights<T>().r.data(), 2, units_, units_, FormOf(cell.spec(), units_, weights), 4),
        r_h_(cell.weights<T>().r.data() + 2 * units_ * units_, 1, units_, units_, r_zr_.form(), 4) {
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
      Blend(rows, keep,
            is_plain ? Factors<T>{reset.data, reset.stride}
                     : Prepare(r_h_.form(), units_, rows.count, units_, reset, rows.prepared_scratch),
            team);
    } else {
      Blend(rows, keep, {reset.data, reset.stride}, team);
    }
  }

 private:
  using GruStep<T>::units_, GruStep<T>::width_, GruStep<T>::f_, GruStep<T>::g_, GruStep<T>::gates_;

  // Rows of z and of r (.) h; two units' lines at once.
  void Reset(const StepRows<T>& rows, Rows<T> keep, Rows<T> reset, Team& team) const {
    const size_t panels = (r_zr_.lines() + kPanelLines - 1) / kPanelLines;
    ForPanels(panels, StepWork(rows, inputs_[0], r_zr_), rows.backwards, team, [&](size_t panel) {
      PanelSums<T> sums;
      const size_t first = panel * kPanelLines, lines = std::min(kPanelLines, r_zr_.lines() - first);
      const Rows<const T> inputs = inputs_[0].Find(rows.count, rows.inputs, rows.x, first, lines, sums.inputs);
      const Rows<const T> state = MultiplyState(rows.count, rows.h, r_zr_, first, lines, sums.state);
      const size_t line = rows.count * kLine<T>;
      f_.ApplyToSums({rows.count, lines, inputs, state, sums.by_line, kLine<T>, line});
      for (size_t k = 0; k < lines; k += 2) {
        const size_t unit = (first + k) / 2 * kLine<T>;
        const GruUnits<T> units = {rows.count, rows.h.From(unit), rows.next_h.From(unit)};
        gates_.reset(units, sums.by_line + k * line, keep.From(unit), reset.From(unit));
      }
    });
  }

  // A few lines of different units at once.
  void Blend(const StepRows<T>& rows, Rows<const T> keep, const Factors<T>& reset, Team& team) const {
    const Rows<const T> ahead = rows.inputs.data == nullptr ? rows.inputs : rows.inputs.From(inputs_[0].columns());
    const size_t panels = (r_h_.lines() + kPanelLines - 1) / kPanelLines;
    ForPanels(panels, StepWork(rows, inputs_[1], r_h_), rows.backwards, team, [&](size_t panel) {
      PanelSums<T> sums;
      const size_t first = panel * kPanelLines, lines = std::min(kPanelLines, r_h_.lines() - first);
      const Rows<const T> inputs = inputs_[1].Find(rows.count, ahead, rows.x, first, lines, sums.inputs);
      const Rows<const T> state = MultiplyState(rows.count, reset, r_h_, first, lines, sums.state);
      const size_t line = rows.count * kLine<T>;
      g_.ApplyToSums({rows.count, lines, inputs, state, sums.by_line, kLine<T>, line});
      for (size_t k = 0; k < lines; ++k) {
        const size_t unit = (first + k) * kLine<T>;
        const GruUnits<T> units = {rows.count, rows.h.From(unit), rows.next_h.From(unit)};
        gates_.blend(units, keep.From(unit), sums.by_line + k * line);
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
