// SPDX-License-Identifier: Apache-2.0
#include <iostream>

#include "absl/synchronization/mutex.h"
#include "client/rnnctl/command.h"

int main(int argc, char** argv) {
  // As in the server: a load generator takes CPU from the server that it measures.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return rnnserve::rnnctl::Run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc),
                               {std::cin, std::cout, std::cerr});
}
