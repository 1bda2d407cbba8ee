// SPDX-License-Identifier: Apache-2.0
// File descriptors, and how many connections they allow.
#pragma once

#include <cstdint>

#include "server/config/settings.h"

namespace rnnserve {

// Descriptors for all but connections: models, listeners, the admin port, gRPC's own.
inline constexpr int64_t kOtherDescriptors = 64;

// Where standard input, output or error are closed, /dev/null takes their place: otherwise the next file or connection
// would get their numbers, and the log would be written to it. Before anything is opened.
void FillStandardDescriptors();

// To the hard limit: the soft one is for programs that use select().
void RaiseDescriptorLimit();

// The number of connections that the limit of file descriptors allows.
int64_t MostConnections();

// What --max_connections says; 0 there: a usual number, or MostConnections() if that is less.
int MaxConnections();

// Tells what --max_connections=0 stands for. After RaiseDescriptorLimit.
void ShowConnections(Settings& settings);

}  // namespace rnnserve
