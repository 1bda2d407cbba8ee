// SPDX-License-Identifier: Apache-2.0
#include "server/sessions/contract/window.h"

#include <utility>

namespace rnnserve {

void Window::Keep(Kept kept, const Limits& limits) {
  if (limits.operations == 0) return;
  bytes_ += kept.reply->bytes();
  if (static_cast<int64_t>(kept_.size()) == limits.operations) {
    // The oldest one's place serves again.
    bytes_ -= kept_.front().reply->bytes();
    kept_.splice(kept_.end(), kept_, kept_.begin());
    kept_.back() = std::move(kept);
  } else {
    kept_.push_back(std::move(kept));
  }
  while (bytes_ > limits.bytes) {
    bytes_ -= kept_.front().reply->bytes();
    kept_.pop_front();
    if (kept_.empty()) break;
  }
}

const Window::Kept* Window::Find(uint64_t number) const {
  // Repetitions are of the last ones, mostly.
  for (auto kept = kept_.rbegin(); kept != kept_.rend() && kept->number >= number; ++kept) {
    if (kept->number == number) return &*kept;
  }
  return nullptr;
}

void Window::Clear() {
  kept_.clear();
  bytes_ = 0;
}

}  // namespace rnnserve
