// SPDX-License-Identifier: Apache-2.0
// Whether outputs are finite.
#pragma once

#include <string_view>

#include "engine/data_type.h"

namespace rnnserve {

// Whether any element of `bytes` (little-endian) is a NaN or an infinity.
bool HasNonfinite(DataType type, std::string_view bytes);

}  // namespace rnnserve
