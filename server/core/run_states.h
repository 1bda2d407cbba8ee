// SPDX-License-Identifier: Apache-2.0
// The states of a run as handles, for callers that keep them between runs (sessions): those of every layer, together.
#pragma once

#include <memory>

#include "absl/container/inlined_vector.h"
#include "engine/engine.h"

namespace rnnserve {

// The deleter of kept states, called by the last holder: what a session knew must not lie in free memory.
struct WipeState {
  ProgramPtr program;
  DataType compute_type;
  void operator()(const State* state) const {
    State& last = const_cast<State&>(*state);  // the last reference
    program->ImportState(compute_type, nullptr, nullptr, last);
    delete state;
  }
};

// Of one layer: direction d, row n at [d * rows + n]. Null: zeros. Each was made by the program of its layer and
// direction. Handles are never changed once they are here; runs that start from one may share it.
using LayerStates = absl::InlinedVector<std::shared_ptr<const State>, 1>;
// Of each layer.
using RunStates = absl::InlinedVector<LayerStates, 1>;

}  // namespace rnnserve
