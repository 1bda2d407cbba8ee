// SPDX-License-Identifier: Apache-2.0
// A client of one session, as ours are: an operation at a time, the same number again after a failure, with the
// clients' own pause between tries, at another replica where one has gone; after a takeover it goes on at
// next_expected. With rounds: of one session after the other, all of one name.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "client/cpp/backoff.h"
#include "tests/server/sessions/contract/storms/replica.h"

namespace rnnserve::storms {

class Caller {
 public:
  Caller(const Terms& terms, Events* events, Figures* figures, std::vector<std::unique_ptr<Replica>>* replicas,
         size_t id);

  void Start() { OpenRound(); }
  // Its connection breaks: what has no answer gets none on it, and the next try goes to any replica.
  void Break();
  // The same if it is connected to that replica, whose end it learns from the connection.
  void Gone(size_t replica);
  bool is_done() const { return is_done_; }
  std::string Where() const;

 private:
  bool has_rounds() const { return terms_.rounds > 0; }
  // The number of Close, where there are rounds.
  uint64_t last() const { return terms_.operations + (has_rounds() ? 1 : 0); }
  uint64_t ContentOf(uint64_t number) const { return round_ << 32 | number; }
  void OpenRound();
  void Want();
  void BeginNext();
  void Try();
  void Send(uint64_t attempt);
  void SendOpen(uint64_t attempt);
  void HeardOpen(const absl::StatusOr<Replica::Opened>& opened);
  void CheckOpened(const Replica::Opened& opened);
  void EndRound();
  // An operation with the key of a session that was closed.
  void Probe();
  void Heard(uint64_t attempt, const Replica::Answer& answer);
  void HeardOk(uint64_t number, const Replica::Answer& answer);
  // It is behind what was answered: what may be lost is sent again, anything else is wrong.
  void GoBackTo(uint64_t next_expected);
  void TryLater();
  void ChooseOther();

  const Terms& terms_;
  Events* const events_;
  Figures* const figures_;
  std::vector<std::unique_ptr<Replica>>* const replicas_;
  const size_t id_;
  const Durability durability_;
  client::Backoff backoff_;
  const std::string name_;  // empty: none
  uint64_t round_ = 0;
  bool is_done_ = false;
  bool is_opening_ = false;                      // what is sent now
  bool attaches_ = false;                        // ... that Open
  bool has_sent_close_ = false;                  // of this round
  bool is_free_ = true;                          // the name: no Open was under way when the Close was first sent
  int64_t opens_ = 0;                            // without an answer: they may make a session of the name at any time
  std::set<std::string> closed_;                 // keys
  std::string key_;                              // of this round's session
  size_t at_;                                    // the replica
  uint64_t attempt_ = 0;                         // an answer to an earlier one is looked at, and no more
  int tried_ = 0;                                // since the last answer
  uint64_t number_ = 0;                          // sent now; below answered_ + 1 while numbers are replayed
  uint64_t answered_ = 0;                        // the highest number that was
  bool is_waiting_ = false;                      // for the answer to the number above answered_
  uint64_t durable_ = 0;                         // the highest that a reply has called durable
  std::vector<uint64_t> states_;                 // after each number
  absl::Duration began_ = absl::ZeroDuration();  // to want the number above answered_
};

}  // namespace rnnserve::storms
