// SPDX-License-Identifier: Apache-2.0
// One step of a cell for some rows at once: what lstm_step, gru_step and rnn_step each do for their kind. Immutable.
//
// A step goes through the units panel by panel, a few lines (packed_matrix.h) of all rows each: the product with R,
// that with W unless it was made for a stretch of steps beforehand, then the cell's functions, at once or during the
// products of the next panel. Padded units run along with weights and biases of zero; nothing ever reads them back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

#include "engine/cell.h"
#include "engine/cpu/cell_inputs.h"
#include "engine/cpu/meanwhile.h"
#include "engine/cpu/panel_sums.h"
#include "engine/cpu/panels.h"
#include "engine/cpu/tile_product.h"

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

// R h of a panel of `lines`, and its share of the inputs. `meanwhile`: a hint, as Product has it.
template <typename T>
PanelSums<T> MultiplyPanel(const StepRows<T>& rows, const CellInputs<T>& inputs, const PackedMatrix<T>& r, size_t first,
                           size_t lines, PanelBuffer<T>& buffer, Meanwhile* meanwhile = nullptr) {
  const Rows<const T> of_x = inputs.Find(rows.count, rows.inputs, rows.x, first, lines, buffer.inputs, meanwhile);
  const Rows<T> of_h = {buffer.state, lines * kLine<T>};
  Multiply(Product<T>{.count = rows.count,
                      .rows = rows.h,
                      .weights = &r,
                      .first_line = first,
                      .lines = lines,
                      .target = of_h,
                      .meanwhile = meanwhile});
  return {0, rows.count, first, lines, of_x, of_h, buffer.by_line};
}

// Where a panel of R takes more, tiles wait for weights that come from the second cache or further off, and functions
// run meanwhile. Where it takes less they hardly wait: LSTM of H = 128 takes 1.04 times as long with functions between.
inline constexpr size_t kFarPanelBytes = size_t{64} << 10;
inline constexpr size_t kPieceRows = 2;  // whose functions run at once then

// The panels of a thread, where tiles multiply: the functions of a panel may run during the products of the next one.
template <typename T, typename Functions>
void RunPanelsByTiles(const StepRows<T>& rows, const CellInputs<T>& inputs, const PackedMatrix<T>& r, size_t most,
                      PanelRange range, const Functions& functions) {
  const bool runs_meanwhile = r.tile_line_bytes() * most > kFarPanelBytes;
  const size_t products = rows.inputs.data == nullptr && inputs.IsByTiles(rows.count, rows.x) ? 2 : 1;
  const KeptTiles kept;
  PanelBuffer<T> buffers[2];
  PanelSums<T> before;
  for (size_t k = 0; k < range.size(); ++k) {
    const size_t first = range[k] * most, lines = std::min(most, r.lines() - first);
    const auto run_piece = [&](size_t piece) { functions(before.From(piece * kPieceRows, kPieceRows)); };
    Meanwhile meanwhile((before.count + kPieceRows - 1) / kPieceRows, products, run_piece);
    const PanelSums<T> sums =
        MultiplyPanel(rows, inputs, r, first, lines, buffers[k % 2], runs_meanwhile ? &meanwhile : nullptr);
    meanwhile.Finish();
    if (runs_meanwhile) {
      before = sums;
    } else {
      functions(sums);
    }
  }
  if (before.count > 0) functions(before);
}

// Each panel of at most so many lines: its products, then functions(sums), of all rows at once or of a few.
template <typename T, typename Functions>
void RunPanels(const StepRows<T>& rows, const CellInputs<T>& inputs, const PackedMatrix<T>& r, size_t most, Team& team,
               const Functions& functions) {
  const size_t panels = (r.lines() + most - 1) / most;
  const size_t work = rows.count * (r.columns() * r.depth() + (rows.inputs.data == nullptr ? inputs.work() : 0));
  const bool is_by_tiles = IsByTiles(rows.count, rows.h, r);
  ForPanels(panels, work, rows.backwards, team, [&](PanelRange range) {
    if (is_by_tiles) return RunPanelsByTiles(rows, inputs, r, most, range, functions);
    PanelBuffer<T> buffer;
    for (size_t k = 0; k < range.size(); ++k) {
      const size_t first = range[k] * most, lines = std::min(most, r.lines() - first);
      functions(MultiplyPanel(rows, inputs, r, first, lines, buffer));
    }
  });
}

}  // namespace rnnserve::cpu
