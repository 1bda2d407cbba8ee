// SPDX-License-Identifier: Apache-2.0
// Whether a server's address is one of this machine. No http_proxy is asked for those, whatever it says: a proxy
// elsewhere would look for the server on its own machine.
#pragma once

#include <string_view>

namespace rnnserve::client {

inline bool IsThisMachine(std::string_view address) {
  return address.starts_with("localhost:") || address.starts_with("127.") || address.starts_with("[::1]:");
}

}  // namespace rnnserve::client
