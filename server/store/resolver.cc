// SPDX-License-Identifier: Apache-2.0
#include "server/store/resolver.h"

#include <netdb.h>

#include <cstring>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"

namespace rnnserve {
namespace {

// `flags` of AI_NUMERICHOST: an address, which needs no lookup.
Addresses LookUp(const StoreHost& host, int flags) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.host.c_str(), std::to_string(host.port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat("the name ", host.host, " is not found: ", gai_strerror(error)));
  }
  std::vector<SocketAddress> addresses;
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.bytes, info->ai_addr, info->ai_addrlen);
    address.size = info->ai_addrlen;
  }
  freeaddrinfo(found);
  return addresses;
}

struct Running {
  Mutex mutex;
  std::set<std::string> names ABSL_GUARDED_BY(mutex);
};

}  // namespace

void Resolve(const std::shared_ptr<EventLoop>& loop, const StoreHost& host, absl::AnyInvocable<void(Addresses)> done) {
  const auto answer = [loop](absl::AnyInvocable<void(Addresses)> to, Addresses with) {
    loop->Post([to = std::move(to), with = std::move(with)]() mutable { to(std::move(with)); });
  };
  if (Addresses numeric = LookUp(host, AI_NUMERICHOST); numeric.ok())
    return answer(std::move(done), std::move(numeric));

  static auto& running = *new Running;  // threads may outlive the end of main
  {
    const MutexLock lock(running.mutex);
    if (!running.names.insert(host.host).second) {
      return answer(std::move(done), absl::UnavailableError(absl::StrCat("the lookup of ", host.host, " hangs")));
    }
  }
  auto shared = std::make_shared<absl::AnyInvocable<void(Addresses)>>(std::move(done));
  try {
    std::thread([answer, host, shared] {
      Addresses found = LookUp(host, 0);
      {
        const MutexLock lock(running.mutex);
        running.names.erase(host.host);
      }
      answer(std::move(*shared), std::move(found));
    }).detach();
  } catch (const std::system_error&) {
    {
      const MutexLock lock(running.mutex);
      running.names.erase(host.host);
    }
    answer(std::move(*shared), absl::UnavailableError("there is no thread for a lookup"));
  }
}

}  // namespace rnnserve
