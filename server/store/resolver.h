// SPDX-License-Identifier: Apache-2.0
// Looks up names without making a thread of the store wait: getaddrinfo blocks, so it has a thread of its own.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "server/store/event_loop.h"
#include "server/store/store_address.h"

namespace rnnserve {

struct SocketAddress {
  sockaddr_storage bytes = {};
  socklen_t size = 0;
  int family() const { return bytes.ss_family; }
};

using Addresses = absl::StatusOr<std::vector<SocketAddress>>;

// Calls `done` as a task of the loop. UNAVAILABLE: there is no such name, or no answer. A lookup that hangs keeps its
// thread for as long as the system's resolver waits; a host has one lookup at a time.
void Resolve(const std::shared_ptr<EventLoop>& loop, const StoreHost& host, absl::AnyInvocable<void(Addresses)> done);

}  // namespace rnnserve
