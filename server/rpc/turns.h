// SPDX-License-Identifier: Apache-2.0
// Whether the caller of a stream waits for the answers to a message before it sends the next one. gRPC announces the
// stream's window to the caller as soon as a read is posted: a system call that delays the answer, and wakes the caller
// for nothing. For a caller that waits, the server posts the read after the answers.
//
//   Turns turns;
//   turns.Came(nothing_in_flight);          // a message has come, read at once unless turns.ReadsLate()
//   ... begin its operations ...
//   if (turns.ReadsLate()) ... let short ones be answered ...
//
// What a caller does shows only while reads are posted at once. So after kLate late reads the next ones are early
// again.
#pragma once

namespace rnnserve {

class Turns {
 public:
  void Came(bool nothing_in_flight) {
    if (late_ > 0) {
      --late_;
      return;
    }
    waits_in_a_row_ = nothing_in_flight ? waits_in_a_row_ + 1 : 0;
    if (waits_in_a_row_ < kWaits) return;
    waits_in_a_row_ = 0;
    late_ = kLate;
  }
  bool ReadsLate() const { return late_ > 0; }

 private:
  static constexpr int kWaits = 4;
  // A caller that begins to send ahead is served message by message for as many.
  static constexpr int kLate = 64;

  int waits_in_a_row_ = 0;
  int late_ = 0;
};

}  // namespace rnnserve
