// SPDX-License-Identifier: Apache-2.0
// A cell on oneDNN: primitives by rows and steps, made when first needed and shared by all threads.
#pragma once

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/onednn/recurrence.h"
#include "engine/onednn/scratch.h"

namespace rnnserve::onednn {

// float32 whatever the data type.
struct OneDnnState : public State {
  std::vector<float> h;
  std::vector<float> c;  // empty unless the cell is an LSTM
};

// A primitive with the arguments of one workspace.
struct BoundCall {
  dnnl::primitive primitive;
  std::unordered_map<int, Memory> arguments;
  size_t scratchpad_bytes = 0;
};

struct OneDnnWorkspace : public Workspace {
  explicit OneDnnWorkspace(const dnnl::engine& engine) : stream(engine) {}

  dnnl::stream stream;
  std::map<std::pair<size_t, int64_t>, BoundCall> calls;  // by rows and steps
  std::vector<const SequenceSlice*> rows;                 // longest first
  // States of all rows; a call reads one of each pair and writes the other.
  Scratch h[2], c[2];
  Scratch x, y, scratchpad;  // of one call

  size_t bytes() const {
    size_t sum = 0;
    for (const Scratch* part : {&h[0], &h[1], &c[0], &c[1], &x, &y, &scratchpad}) sum += part->bytes();
    return sum;
  }
};

// Of a cell that CheckCell accepts.
absl::StatusOr<ProgramPtr> MakeOneDnnProgram(CellPtr cell);

}  // namespace rnnserve::onednn
