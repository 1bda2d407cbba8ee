// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/cell_inputs.h"

#include <algorithm>
#include <vector>

#include "engine/cpu/tile_product.h"

namespace rnnserve::cpu {
namespace {

template <typename T>
AlignedBuffer<T> SumBiases(const Cell& cell, size_t first, size_t count, size_t summed) {
  const CellWeights<T>& weights = cell.weights<T>();
  const auto units = static_cast<size_t>(cell.spec().hidden_size);
  std::vector<T> sum = weights.wb;
  for (size_t k = 0; k < summed * units; ++k) sum[k] += weights.rb[k];
  return PackVector(sum.data() + first * units, count, units);
}

}  // namespace

WeightForm FormOf(const CellSpec& spec, size_t depth, WeightForm weights) {
  const size_t columns =
      static_cast<size_t>(GateCount(spec.kind)) * PadToLine<float>(static_cast<size_t>(spec.hidden_size));
  if (weights.has_parts() && !PaysParts(depth, columns)) weights.may_vary = false;
  return weights;
}

template <typename T>
CellInputs<T>::CellInputs(const Cell& cell, size_t first, size_t count, size_t summed, WeightForm weights)
    : w_(cell.weights<T>().w.data() + first * static_cast<size_t>(cell.spec().hidden_size * cell.spec().input_size),
         count, static_cast<size_t>(cell.spec().hidden_size), static_cast<size_t>(cell.spec().input_size),
         FormOf(cell.spec(), static_cast<size_t>(cell.spec().input_size), weights), GroupHere(count == 3 ? 3 : 4)),
      bias_(SumBiases<T>(cell, first, count, summed)) {}

template <typename T>
void CellInputs<T>::Multiply(size_t count, const Factors<T>& x, Rows<T> target, Team& team) const {
  const size_t most = w_.together() == 3 ? 3 : kPanelLines;  // groups are not cut
  const size_t panels = (w_.lines() + most - 1) / most;
  ForPanels(panels, count * work(), false, team, [&](PanelRange range) {
    for (size_t k = 0; k < range.size(); ++k) {
      const size_t first = range[k] * most, lines = std::min(most, w_.lines() - first);
      MultiplyLines(count, x, first, lines, target.From(first * kLine<T>), nullptr);
    }
  });
}

template <typename T>
Rows<const T> CellInputs<T>::Find(size_t count, Rows<const T> inputs, const Factors<T>& x, size_t first_line,
                                  size_t lines, T* buffer, Meanwhile* meanwhile) const {
  if (inputs.data != nullptr) return inputs.From(first_line * kLine<T>);
  const Rows<T> target = {buffer, lines * kLine<T>};
  MultiplyLines(count, x, first_line, lines, target, meanwhile);
  return target;
}

template <typename T>
void CellInputs<T>::MultiplyLines(size_t count, const Factors<T>& x, size_t first_line, size_t lines, Rows<T> target,
                                  Meanwhile* meanwhile) const {
  cpu::Multiply(Product<T>{.count = count,
                           .rows = x,
                           .weights = &w_,
                           .first_line = first_line,
                           .lines = lines,
                           .start = {bias_.data() + first_line * kLine<T>, 0},
                           .target = target,
                           .meanwhile = meanwhile});
}

template class CellInputs<float>;
template class CellInputs<double>;

}  // namespace rnnserve::cpu
