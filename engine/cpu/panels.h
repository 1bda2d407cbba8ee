// SPDX-License-Identifier: Apache-2.0
// How the work of a step is cut for a Team: by panels, the units whose sums are computed at once. Each thread takes
// some from product to functions, so that it always meets the same weights, which stay in its core's cache. Small work
// is not cut: handing over and taking back costs 0.4 us where the cores share a cache, and 2 us where they do not.
#pragma once

#include <algorithm>
#include <cstddef>

#include "engine/cpu/helper.h"

namespace rnnserve::cpu {

// Multiplications of a part: about 1 us of one core at least and 80 us at most, for so long one thread may wait for the
// other at the end.
inline constexpr size_t kLeastPart = size_t{1} << 15;
inline constexpr size_t kMostPart = size_t{1} << 22;
// More only cost more handing over: with four, one step of one row of H = 128 takes 1.03 to 1.17 times as long. From
// kUnevenWork on each thread has two: the helper may come late, or its core be slower.
inline constexpr size_t kEnoughParts = 2;
inline constexpr size_t kUnevenWork = size_t{1} << 21;

inline size_t PartsOf(size_t multiplications, size_t panels) {
  const size_t enough = multiplications < kUnevenWork ? kEnoughParts : 2 * kEnoughParts;
  const size_t parts = std::max(std::min(multiplications / kLeastPart, enough), multiplications / kMostPart);
  return std::min(parts, panels);
}

// What a thread takes at once: size() panels, in the order of their index here.
struct PanelRange {
  size_t first;
  size_t end;
  bool backwards;

  size_t size() const { return end - first; }
  size_t operator[](size_t k) const { return backwards ? end - 1 - k : first + k; }
};

// Calls run(range) for all `panels`, on both threads of the team if that pays. `backwards`: each thread takes its own
// in the opposite order, so that it begins with those that are still in the cache from the last time.
template <typename Run>
void ForPanels(size_t panels, size_t multiplications, bool backwards, Team& team, const Run& run) {
  const size_t parts = team.IsInStep() ? 2 : PartsOf(multiplications, panels);
  if (parts < 2 || !(team.IsInStep() || team.IsShared())) return run(PanelRange{0, panels, backwards});
  team.Run(parts, [&](size_t part) {
    // The helper begins with the last part.
    const size_t middle = parts / 2;
    if (backwards) part = part < middle ? middle - 1 - part : parts - 1 - (part - middle);
    run(PanelRange{panels * part / parts, panels * (part + 1) / parts, backwards});
  });
}

}  // namespace rnnserve::cpu
