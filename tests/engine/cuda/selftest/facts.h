// SPDX-License-Identifier: Apache-2.0
// What is said about cuDNN elsewhere (docs/engines, section cuDNN: read in headers, or measured by third parties), each
// line tried on this device.
#pragma once

namespace rnnserve::selftest {

// facts_calls.cc: what a call may leave out, how its data may lie.
void Optional();
void Layouts();
void Projection();
void ZeroSizes();  // may leave the context broken: in a process of its own

// facts_numbers.cc: what comes out.
void Mappings();
void Types();
void Clip();
void NotANumber();
void Repeatability();

// facts_algorithms.cc: which shapes the algorithms take, and what calls cost.
void Algorithms();
void TemporarySpace();
void Costs();

}  // namespace rnnserve::selftest
