// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/rnn_step.h"

#include <algorithm>

#include "engine/cpu/activations.h"

namespace rnnserve::cpu {
namespace {

template <typename T>
class RnnStep : public RecurrentStep<T> {
 public:
  RnnStep(const Cell& cell, WeightForm weights)
      : inputs_(cell, 0, 1, 1, weights),
        r_(cell.weights<T>().r.data(), 1, static_cast<size_t>(cell.spec().hidden_size),
           static_cast<size_t>(cell.spec().hidden_size),
           FormOf(cell.spec(), static_cast<size_t>(cell.spec().hidden_size), weights), 4),
        f_(cell.spec().activations[0], cell.spec().clip) {}

  std::span<const CellInputs<T>> inputs() const override { return {&inputs_, 1}; }
  size_t packed_bytes() const override { return inputs_.bytes() + r_.bytes(); }

  void Run(const StepRows<T>& rows, Team& team) const override {
    const size_t panels = (r_.lines() + kPanelLines - 1) / kPanelLines;
    ForPanels(panels, StepWork(rows, inputs_, r_), rows.backwards, team, [&](size_t panel) {
      PanelSums<T> sums;
      const size_t first = panel * kPanelLines, lines = std::min(kPanelLines, r_.lines() - first);
      const Rows<const T> inputs = inputs_.Find(rows.count, rows.inputs, rows.x, first, lines, sums.inputs);
      const Rows<const T> state = MultiplyState(rows.count, rows.h, r_, first, lines, sums.state);
      T* const target = rows.next_h.data + first * kLine<T>;
      f_.ApplyToSums({rows.count, lines, inputs, state, target, rows.next_h.stride, kLine<T>});
    });
  }

 private:
  CellInputs<T> inputs_;
  PackedMatrix<T> r_;
  ClippedActivation<T> f_;
};

}  // namespace

template <typename T>
std::unique_ptr<const RecurrentStep<T>> MakeRnnStep(const Cell& cell, WeightForm weights) {
  return std::make_unique<RnnStep<T>>(cell, weights);
}

template std::unique_ptr<const RecurrentStep<float>> MakeRnnStep(const Cell&, WeightForm);
template std::unique_ptr<const RecurrentStep<double>> MakeRnnStep(const Cell&, WeightForm);

}  // namespace rnnserve::cpu
