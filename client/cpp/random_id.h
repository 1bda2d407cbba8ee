// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>
#include <string>

#include "absl/strings/str_format.h"

namespace rnnserve::client {

// 128 random bits in hexadecimal: request IDs and routes, which differ between any two callers.
inline std::string RandomId() {
  std::random_device random;
  return absl::StrFormat("%08x%08x%08x%08x", random(), random(), random(), random());
}

}  // namespace rnnserve::client
