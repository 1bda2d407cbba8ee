// SPDX-License-Identifier: Apache-2.0
// The server's log: one line an event, on standard error. Text from callers goes in escaped and shortened, secrets
// never.
#pragma once

#include <string_view>

namespace rnnserve {

// debug, info, warning, error, off. False if `level` is none of them. Before this: info.
bool SetLogLevel(std::string_view level);

void LogDebug(std::string_view text);
void LogInfo(std::string_view text);
void LogWarning(std::string_view text);
void LogError(std::string_view text);

}  // namespace rnnserve
