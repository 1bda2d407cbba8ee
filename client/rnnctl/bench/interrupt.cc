// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/interrupt.h"

namespace rnnserve::rnnctl::bench {
namespace {

volatile std::sig_atomic_t came = 0;

extern "C" void OnInterrupt(int) { came = 1; }

}  // namespace

InterruptGuard::InterruptGuard() {
  came = 0;
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, &before_);
}

InterruptGuard::~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }

bool InterruptGuard::interrupted() const { return came != 0; }

}  // namespace rnnserve::rnnctl::bench
