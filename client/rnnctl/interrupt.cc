// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/interrupt.h"

namespace rnnserve::rnnctl {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};
volatile std::sig_atomic_t came = 0;

extern "C" void OnInterrupt(int) { came = 1; }

}  // namespace

InterruptGuard::InterruptGuard() {
  came = 0;
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  action.sa_flags = SA_RESETHAND;
  for (int k = 0; k < 2; ++k) sigaction(kSignals[k], &action, &before_[k]);
}

InterruptGuard::~InterruptGuard() {
  for (int k = 0; k < 2; ++k) sigaction(kSignals[k], &before_[k], nullptr);
}

bool InterruptGuard::interrupted() const { return came != 0; }

}  // namespace rnnserve::rnnctl
