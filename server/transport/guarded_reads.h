// SPDX-License-Identifier: Apache-2.0
// A FrameGuard on each connection of the gRPC server. gRPC 1.51 does not show what it reads, so this program defines
// recvmsg and SSL_read, which gRPC's libraries find before those of libc and OpenSSL: they do the same, close
// connections whose guard says so, and hide one frame (FrameGuard::Inspect). Linked into the program itself, never into
// a library.
#pragma once

#include <cstdint>

#include "server/telemetry/metrics.h"

namespace rnnserve {

// rnnserve_abusive_connections_total: the connections that a guard has closed.
void CountAbusive(Metrics& metrics);

// Logs an error if gRPC's library does not read through these functions.
void LogIfReadsAreUnguarded(bool with_tls);

// `fd` is a connection that has just been accepted and answered (Http2ServerGreeting), and whose bytes are HTTP/2 as
// they come. Those of TLS need no call.
// `max_streams` are promised to it.
void GuardReads(int fd, int64_t max_streams);

}  // namespace rnnserve
