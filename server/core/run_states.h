// SPDX-License-Identifier: Apache-2.0
// The states of a run as handles, for callers that keep them between runs (sessions): those of every layer, together.
#pragma once

#include <memory>
#include <vector>

#include "engine/sequence.h"

namespace rnnserve {

// Of one layer: direction d, row n at [d * rows + n]. Null: zeros. Each was made by the program of its layer and
// direction. Handles are never changed once they are here; runs that start from one may share it.
using LayerStates = std::vector<std::shared_ptr<const State>>;
// Of each layer.
using RunStates = std::vector<LayerStates>;

}  // namespace rnnserve
