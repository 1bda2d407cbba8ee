// SPDX-License-Identifier: Apache-2.0
// What sessions.md says will happen to one session, written down once more and as plainly as can be: lists, no locks,
// no callbacks. The simulator holds every answer against it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace rnnserve::sim {

// One request as the server got it.
struct Request {
  int id = 0;
  std::optional<uint64_t> number = {};
  uint64_t content = 0;
  uint64_t attachment = 0;
  std::optional<uint64_t> owner_epoch = {};
  absl::Duration deadline = absl::InfiniteDuration();
  bool closes = false;
  absl::StatusCode fault = absl::StatusCode::kOk;  // what is wrong with it, if it is new
};

// What a request is told.
struct Told {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string reason;
  uint64_t number = 0;  // of the operation, if it was applied
  std::string reply;    // if it was applied
  bool repeated = false;
  uint64_t last_applied = 0;  // of the session, as the answer says
  bool operator==(const Told&) const = default;
  std::string Text() const;
};

class Oracle {
 public:
  struct Terms {
    int max_in_flight = 4;
    int window = 3;
    absl::Duration idle_timeout;
  };
  explicit Oracle(Terms terms, absl::Duration now) : terms_(terms), used_(now) {}

  void Submit(const Request& request, absl::Duration now, absl::Duration age);
  // The operation that has the lease: its engine is done, or its caller has gone.
  void Finish(bool ok, absl::StatusCode failure, absl::Duration now, absl::Duration age);
  void Expire();
  // A closed one, after its minute.
  void Forget() { forgotten_ = true; }
  // An Open attaches: the owner epoch it is told.
  uint64_t Attach(absl::Duration age);

  // Answers since the last call.
  std::map<int, Told> TakeAnswers() { return std::exchange(answers_, {}); }
  // The request whose operation has the lease.
  std::optional<int> running() const;
  bool MayExpire(absl::Duration age) const { return live_ && queue_.empty() && age - used_ >= terms_.idle_timeout; }

  bool live() const { return live_; }
  const std::vector<uint64_t>& log() const { return log_; }
  uint64_t last_applied() const { return last_applied_; }
  size_t in_flight() const { return queue_.size(); }
  uint64_t owner_epoch() const { return owner_epoch_; }

 private:
  struct Entry {
    Request first;
    uint64_t number;
    std::vector<int> waiting;
    uint64_t newest;  // attachment of those that wait
  };
  struct Applied {
    uint64_t content;
    std::string reply;
  };
  // Numbers that were refused together, for a reason that will pass.
  struct Refused {
    uint64_t first;
    uint64_t last;
    absl::StatusCode code;
    std::string reason;
  };

  void Answer(int id, absl::StatusCode code, std::string reason = "");
  bool IsRepetition(const Request& request) const;
  // Whether it is a repetition, or a number that is used up: answered.
  bool AnswerKnown(const Request& request);
  void Refuse(const Request& request, absl::StatusCode code, const std::string& reason);
  // The newest one with something applied or in flight.
  uint64_t Owner() const;
  // How many of the queue stay if `attachment` takes the session.
  size_t Stays(uint64_t attachment) const;
  void Abort(size_t from, const std::string& reason);
  void Fail(size_t place, absl::StatusCode code);
  void StartNext(absl::Duration now);
  size_t Waiting(size_t entries) const;

  const Terms terms_;
  std::vector<uint64_t> log_;  // contents applied
  uint64_t last_applied_ = 0;
  std::map<uint64_t, Applied> kept_;  // the window
  std::vector<Entry> queue_;          // the first has the lease
  std::optional<Refused> refused_;
  uint64_t applied_by_ = 0;  // the newest attachment
  uint64_t owner_epoch_ = 1;
  absl::Duration used_;
  bool live_ = true;
  bool forgotten_ = false;  // its key alone is known
  std::map<int, Told> answers_;
};

}  // namespace rnnserve::sim
