// SPDX-License-Identifier: Apache-2.0
// The two things a recurrent layer cannot do without, and nothing else, by the instruction set that the cpu engine
// would take: fused multiply-adds from registers, and reads of weights.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rnnserve::bench {

// The instruction set's name in Highway.
const char* RatesTarget();

// So many rounds of 12 independent chains. Returns the operations, two of each multiply-add and lane. out: 64 floats.
double MultiplyAdds(int64_t rounds, float* out);

// Reads `count` floats, a multiple of kReadFloats, aligned to 64 bytes, up or down. out: 64 floats.
inline constexpr size_t kReadFloats = 256;
void ReadFloats(const float* data, size_t count, bool down, float* out);

}  // namespace rnnserve::bench
