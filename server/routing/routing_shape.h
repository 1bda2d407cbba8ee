// SPDX-License-Identifier: Apache-2.0
// The shapes at which engines are measured against each other: few, so that a cell is known soon.
#pragma once

#include <compare>
#include <cstdint>

namespace rnnserve {

// What a call asks of a cell.
struct RouteLoad {
  int64_t rows = 1;
  int64_t steps = 1;
  bool is_shared = false;  // some of the rows are other calls'
};

// A class of loads, named by one of them.
struct RouteShape {
  int64_t rows = 1;   // 1, 2, 4, ... 64, 256, 1024
  int64_t steps = 1;  // 1, 4, 16
  bool is_shared = false;
  auto operator<=>(const RouteShape&) const = default;
};

// The class whose rows and steps are nearest by ratio.
RouteShape ShapeOf(const RouteLoad& load);

// How far a figure measured for one tells of the other; 0: the same class.
double Distance(const RouteShape& a, const RouteShape& b);

}  // namespace rnnserve
