// SPDX-License-Identifier: Apache-2.0
// Turns a failed allocation into an error of the request that it was for. Wraps work that allocates as much as a
// request asks for, where an exception would end the thread or leave other calls waiting.
//
//   absl::StatusOr<Tasks> tasks = OrOutOfMemory([&] { return run.StartStage(programs); });
#pragma once

#include <new>

#include "absl/status/status.h"
#include "base/rejection.h"

namespace rnnserve {

inline absl::Status OutOfMemory() {
  return Overloaded(Rejection::kMemory, "the server has no memory left for this request; send it again later");
}

// `work` returns a status, or something or a status.
template <typename Work>
auto OrOutOfMemory(Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  }
}

}  // namespace rnnserve
