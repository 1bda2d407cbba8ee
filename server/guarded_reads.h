// SPDX-License-Identifier: Apache-2.0
// A FrameGuard on each connection of the gRPC server. gRPC 1.51 lets nobody see what it reads, so this program has
// recvmsg and SSL_read of its own, which gRPC's libraries find before those of libc and OpenSSL: they do the same, and
// hang up on peers whose guard says so.
#pragma once

#include <cstdint>

#include "server/telemetry/metrics.h"

namespace rnnserve {

// rnnserve_abusive_connections_total: those that were hung up on.
void CountAbusive(Metrics& metrics);

// Tells in the log if gRPC's library does not read through these after all.
void TellIfReadsAreUnguarded(bool with_tls);

// `fd` is a connection that has just been accepted and whose bytes are HTTP/2 as they come. Those of TLS need no call.
// `max_streams` are promised to it.
void GuardReads(int fd, int64_t max_streams);

}  // namespace rnnserve
