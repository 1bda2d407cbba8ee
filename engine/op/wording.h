// SPDX-License-Identifier: Apache-2.0
// How callers' words appear in error texts: escaped and shortened, since they may be hostile and a gRPC status has few
// kilobytes of room.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"
#include "base/view.h"

namespace rnnserve {

// Escaped, at most 64 bytes of `text`: for field paths.
std::string Shortened(std::string_view text);
// The same in double quotes.
std::string Quoted(std::string_view text);
// "[2, 3]", at most eight axes of it.
std::string ShortShape(std::span<const int64_t> shape);

// "inputs[X]", "outputs[Y]", "operator.attributes[clip]".
std::string InputField(std::string_view name);
std::string OutputField(std::string_view name);
std::string AttributeField(std::string_view name);

}  // namespace rnnserve
