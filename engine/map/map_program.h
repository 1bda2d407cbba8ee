// SPDX-License-Identifier: Apache-2.0
// A map made ready to run, as a Program: so maps wait, share slices and are paid for as cells are. A sequence has no
// state in it, but a place: its MapRow says where the streams of a row lie, and how far the row has come.
//
//   ProgramPtr program = CompileMap(map, {});
//   auto row = program->NewState();
//   auto& places = static_cast<MapRow&>(*row);
//   places.in[0] = {tokens, 8};  places.out[0] = {.first = logits, .step = 40000};
//   slice.after = row.get();  slice.steps = 32;                 // x and y of the slice stay null
#pragma once

#include <vector>

#include "engine/engine.h"
#include "engine/map/map.h"

namespace rnnserve {

class MapRow : public State {
 public:
  // The numbers of a step in `groups` equal parts, each so many bytes from the one before, not necessarily aligned.
  struct In {
    const std::byte* first = nullptr;
    std::ptrdiff_t step = 0;  // in bytes
    int64_t groups = 1;
    std::ptrdiff_t group = 0;
  };
  // `first` null: not wanted.
  struct Out {
    std::byte* first = nullptr;
    std::ptrdiff_t step = 0;
    int64_t groups = 1;
    std::ptrdiff_t group = 0;
    // Not kEach: every step goes to the same place, which holds numbers of the compute type (kFirst, kLast: any).
    OverTime over_time = OverTime::kEach;
    int64_t begun = 0;  // steps that are in there before the first one; of sums, means and extremes
  };
  std::vector<In> in;    // of each of the map's inputs
  std::vector<Out> out;  // of each of the map's outputs
  int64_t done = 0;      // steps
};

// Packs the weights once; the program keeps the map.
ProgramPtr CompileMap(MapPtr map, const EngineOptions& options);

}  // namespace rnnserve
