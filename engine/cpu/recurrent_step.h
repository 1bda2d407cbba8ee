// SPDX-License-Identifier: Apache-2.0
// One step of a cell for some rows at once: what lstm_step, gru_step and rnn_step each do for their kind. Immutable.
//
// A step goes through the units panel by panel, a few lines (packed_matrix.h) of all rows each: the product with R,
// that with W unless it was made for a stretch of steps beforehand, then the cell's functions. Padded units run along
// with weights and biases of zero; nothing ever reads them back.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "engine/cell.h"
#include "engine/cpu/cell_inputs.h"
#include "engine/cpu/panel_sums.h"

namespace rnnserve::cpu {

template <typename T>
struct StepRows {
  size_t count = 0;      // 1 .. kGroupRows
  Rows<const T> inputs;  // biases and W x (CellInputs); null: to be computed from x
  Factors<T> x;
  Factors<T> h;                           // before the step
  Rows<T> next_h;                         // after it; not the same memory
  Rows<T> c;                              // before and after it, LSTM only
  Rows<T> scratch;                        // scratch_columns() of the step
  std::byte* prepared_scratch = nullptr;  // where scratch is multiplied: for Prepare
  bool backwards = false;                 // in which order the panels come
};

template <typename T>
class RecurrentStep {
 public:
  virtual ~RecurrentStep() = default;

  // Parts whose columns stand behind each other in a row of inputs.
  virtual std::span<const CellInputs<T>> inputs() const = 0;
  virtual size_t scratch_columns() const { return 0; }
  virtual void Run(const StepRows<T>& rows, Team& team) const = 0;
  virtual size_t packed_bytes() const = 0;
};

// Multiplications of a step, for ForPanels.
template <typename T>
size_t StepWork(const StepRows<T>& rows, const CellInputs<T>& inputs, const PackedMatrix<T>& r) {
  return rows.count * (r.columns() * r.depth() + (rows.inputs.data == nullptr ? inputs.work() : 0));
}

}  // namespace rnnserve::cpu
