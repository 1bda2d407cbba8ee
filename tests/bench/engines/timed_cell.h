// SPDX-License-Identifier: Apache-2.0
// One recurrent layer ready to be timed: random weights and inputs, I = H, forward, float32, default activations, state
// given and asked for. Each contestant of the engine table has its own way to make one.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/cell.h"

namespace rnnserve::bench {

struct Shape {
  CellKind kind = CellKind::kLstm;  // GRU: linear_before_reset = 1
  int64_t steps = 1;
  int64_t rows = 1;
  int64_t units = 128;
};

// What our engines are given for it.
CellPtr MakeCell(const Shape& shape);

class TimedCell {
 public:
  virtual ~TimedCell() = default;
  virtual void Run() = 0;
};

// Program::Advance of the engine of this name; "cpu/INT8": with weights of that type. With two threads "cpu" has its
// helper; rows of "onednn" run in two halves side by side, as two of the server's workers run them, and a single row is
// UNIMPLEMENTED.
absl::StatusOr<std::unique_ptr<TimedCell>> MakeOwnCell(std::string_view engine, const Shape& shape, int threads);

// oneDNN's own primitive with a team of so many threads, of float32 or bfloat16.
absl::StatusOr<std::unique_ptr<TimedCell>> MakeOneDnnPrimitive(const Shape& shape, int threads, bool bfloat16);

// oneDNN's product with packed weights, as often and as large as the cell needs it, without the gates.
absl::StatusOr<std::unique_ptr<TimedCell>> MakeOneDnnProduct(const Shape& shape, int threads);

// The least that multiply-adds and reads of weights take on this machine, float32.
absl::StatusOr<std::unique_ptr<TimedCell>> MakeCellLimit(const Shape& shape, int threads);

}  // namespace rnnserve::bench
