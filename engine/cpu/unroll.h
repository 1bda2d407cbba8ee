// SPDX-License-Identifier: Apache-2.0
#ifndef RNNSERVE_ENGINE_CPU_UNROLL_H_
#define RNNSERVE_ENGINE_CPU_UNROLL_H_

// Before a loop over sums that wait in registers. Without it g++ leaves some of these loops as they are, and their sums
// in memory: g++ 12 those of dot products, g++ 14 those of twelve vectors of one row.
#define RNNSERVE_UNROLL _Pragma("GCC unroll 24")

#endif  // RNNSERVE_ENGINE_CPU_UNROLL_H_
