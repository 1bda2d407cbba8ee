// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/rnn_step.h"

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
           FormOf(cell.spec(), static_cast<size_t>(cell.spec().hidden_size), weights), GroupHere(4)),
        f_(cell.spec().activations[0], cell.spec().clip) {}

  std::span<const CellInputs<T>> inputs() const override { return {&inputs_, 1}; }
  size_t packed_bytes() const override { return inputs_.bytes() + r_.bytes(); }

  void Run(const StepRows<T>& rows, Team& team) const override {
    RunPanels(rows, inputs_, r_, kPanelLines, team, [&](const PanelSums<T>& sums) {
      T* const target = rows.next_h.row(sums.first_row) + sums.first_line * kLine<T>;
      f_.ApplyToSums({sums.count, sums.lines, sums.inputs, sums.state, target, rows.next_h.stride, kLine<T>});
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
