// SPDX-License-Identifier: Apache-2.0
// ReadPlainChunks beside the generated classes.
#pragma once

#include <string_view>

namespace rnnserve {

// Whether `bytes` are a message of plain chunks. Aborts if they are and the generated classes and DecodeOperation make
// anything else of them.
bool FuzzPlainChunks(std::string_view bytes);

}  // namespace rnnserve
