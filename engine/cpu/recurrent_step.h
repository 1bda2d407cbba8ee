// SPDX-License-Identifier: Apache-2.0
// One step of a cell for some rows at once: what lstm_gates, gru_gates and rnn_gates each do for their kind. Immutable.
//
// A row of gates holds the cell's blocks in ONNX order (LSTM i, o, f, c; GRU z, r, h), each padded to whole cache
// lines. Padded units run along with weights and biases of zero; nothing ever reads them back.
#pragma once

#include <cstddef>
#include <memory>

#include "engine/cell.h"
#include "engine/cpu/aligned_buffer.h"
#include "engine/cpu/shared_product.h"

namespace rnnserve::cpu {

template <typename T>
struct StepRows {
  size_t count = 0;
  Rows<T> gates;  // in: input_bias + W x; out: undefined
  Rows<T> h;      // in: h before; out: h after
  Rows<T> c;      // the same of c, LSTM only
};

template <typename T>
class RecurrentStep {
 public:
  virtual ~RecurrentStep() = default;

  // Columns that a row of gates must have room for; at least those of W.
  virtual size_t gate_columns() const = 0;
  // What W x is added to: the biases that can be summed beforehand, block by block.
  virtual const T* input_bias() const = 0;
  virtual void Run(const StepRows<T>& rows, Team& team) const = 0;
  virtual size_t packed_bytes() const = 0;
};

// Wb + Rb for the first `summed` of the cell's blocks, Wb alone for the rest.
template <typename T>
AlignedBuffer<T> SumBiases(const Cell& cell, size_t summed) {
  const CellWeights<T>& weights = cell.weights<T>();
  const auto units = static_cast<size_t>(cell.spec().hidden_size);
  const size_t blocks = weights.wb.size() / units;
  AlignedBuffer<T> sum = PadBlocks(weights.wb.data(), blocks, units);
  for (size_t k = 0; k < summed * units; ++k) sum[k / units * PadToLine<T>(units) + k % units] += weights.rb[k];
  return sum;
}

}  // namespace rnnserve::cpu
