// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/lstm_step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/cpu/activations.h"
#include "engine/cpu/lstm_gates.h"

namespace rnnserve::cpu {
namespace {

double CellClip(const CellSpec& spec) {
  return spec.clip_cell_input ? spec.clip : std::numeric_limits<double>::infinity();
}

// A P of zeros is as good as none.
template <typename T>
bool HasPeephole(const Cell& cell) {
  const std::vector<T>& p = cell.weights<T>().p;
  return cell.spec().has_peephole && std::any_of(p.begin(), p.end(), [](T value) { return value != 0; });
}

// Of a cell without peepholes.
bool IsDefault(const CellSpec& spec) {
  const auto& [f, g, h] = spec.activations;
  return f.kind == ActivationKind::kSigmoid && g.kind == ActivationKind::kTanh && h.kind == ActivationKind::kTanh &&
         std::isinf(spec.clip) && !spec.input_forget;
}

template <typename T>
class LstmStep : public RecurrentStep<T> {
 public:
  LstmStep(const Cell& cell, WeightForm weights)
      : units_(static_cast<size_t>(cell.spec().hidden_size)),
        width_(PadToLine<T>(units_)),
        has_peephole_(HasPeephole<T>(cell)),
        is_default_(!has_peephole_ && IsDefault(cell.spec())),
        input_forget_(cell.spec().input_forget),
        inputs_(cell, 0, 4, 4, weights),
        r_(cell.weights<T>().r.data(), 4, units_, units_, FormOf(cell.spec(), units_, weights), GroupHere(4)),
        peephole_(PadBlocks(cell.weights<T>().p.data(), has_peephole_ ? 3 : 0, units_)),
        f_(cell.spec().activations[0], cell.spec().clip),
        g_(cell.spec().activations[1], cell.spec().clip),
        h_(cell.spec().activations[2], CellClip(cell.spec())),
        gates_(FindLstmGates<T>()) {}

  std::span<const CellInputs<T>> inputs() const override { return {&inputs_, 1}; }
  size_t packed_bytes() const override { return inputs_.bytes() + r_.bytes() + peephole_.size() * sizeof(T); }

  void Run(const StepRows<T>& rows, Team& team) const override {
    RunPanels(rows, inputs_, r_, 4 * BlocksOfPanel(rows.count, r_.form()), team, [&](const PanelSums<T>& sums) {
      const size_t blocks = sums.lines / 4, unit = sums.first_line / 4 * kLine<T>;
      const LstmUnits<T> units = {sums.count, rows.c.Below(sums.first_row).From(unit),
                                  rows.next_h.Below(sums.first_row).From(unit)};
      if (is_default_ && has_peephole_) {
        return gates_.all_with_peephole(units, blocks, sums.inputs, sums.state, peephole_.data() + unit, width_);
      }
      if (is_default_) return gates_.all(units, blocks, sums.inputs, sums.state);
      for (size_t block = 0; block < blocks; ++block) {
        const size_t column = 4 * block * kLine<T>, own = block * kLine<T>;
        AddByLine(sums.count, 4, sums.inputs.From(column), sums.state.From(column), sums.by_line);
        RunGates({sums.count, units.c.From(own), units.next_h.From(own)}, unit + own, sums.by_line);
      }
    });
  }

 private:
  // i and f see the old cell, o the new one. P holds i, o, f.
  void RunGates(const LstmUnits<T>& units, size_t unit, T* by_line) const {
    const size_t line = units.count * kLine<T>;
    T* const i = by_line;
    T* const o = by_line + line;
    T* const f = by_line + 2 * line;
    T* const n = by_line + 3 * line;
    if (has_peephole_) {
      gates_.add_peephole(units, peephole_.data() + unit, i);
      gates_.add_peephole(units, peephole_.data() + 2 * width_ + unit, f);
    }
    f_.Apply(i, line);
    f_.Apply(f, line);
    g_.Apply(n, line);
    (input_forget_ ? gates_.update_coupled_cell : gates_.update_cell)(units, by_line);
    if (has_peephole_) gates_.add_peephole(units, peephole_.data() + width_ + unit, o);
    f_.Apply(o, line);
    h_.Apply(n, line);
    gates_.output(units, by_line);
  }

  size_t units_;
  size_t width_;
  bool has_peephole_;
  bool is_default_;
  bool input_forget_;
  CellInputs<T> inputs_;
  PackedMatrix<T> r_;
  AlignedBuffer<T> peephole_;
  ClippedActivation<T> f_;
  ClippedActivation<T> g_;
  ClippedActivation<T> h_;
  LstmGates<T> gates_;
};

}  // namespace

template <typename T>
std::unique_ptr<const RecurrentStep<T>> MakeLstmStep(const Cell& cell, WeightForm weights) {
  return std::make_unique<LstmStep<T>>(cell, weights);
}

template std::unique_ptr<const RecurrentStep<float>> MakeLstmStep(const Cell&, WeightForm);
template std::unique_ptr<const RecurrentStep<double>> MakeLstmStep(const Cell&, WeightForm);

}  // namespace rnnserve::cpu
