// SPDX-License-Identifier: Apache-2.0
// A world of replicas, a store, and callers with a session each, in virtual time; what goes wrong in it is for the
// test.
//
//   Storm storm({.replicas = 10, .callers = 1000});
//   storm.RunFor(absl::Seconds(2));
//   storm.Kill(0);
//   storm.RunToEnd();
//   EXPECT_EQ(storm.wrong(), "");
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/server/sessions/contract/storms/caller.h"

namespace rnnserve::storms {

class Storm {
 public:
  explicit Storm(const Terms& terms)
      : terms_(terms), events_(terms.seed), codec_(terms.record_bytes), node_(terms_, &events_, &codec_, &figures_) {
    for (size_t k = 0; k < terms.replicas; ++k) {
      replicas_.push_back(std::make_unique<Replica>(terms_, &events_, &node_, &codec_, &figures_));
    }
    for (size_t k = 0; k < terms.callers; ++k) {
      callers_.push_back(std::make_unique<Caller>(terms_, &events_, &figures_, &replicas_, k));
      events_.After(events_.Between(absl::ZeroDuration(), terms.every),
                    [caller = callers_.back().get()] { caller->Start(); });
    }
  }

  // Messages on their way hold sessions, which go before their servers.
  ~Storm() { events_.Clear(); }
  Storm(const Storm&) = delete;
  Storm& operator=(const Storm&) = delete;

  void RunFor(absl::Duration time) { events_.RunUntil(events_.Now() + time); }
  // Until all callers are done, or something is wrong; for ten minutes at most.
  void RunToEnd() {
    for (int second = 0; second < 600 && figures_.wrong.empty() && !IsDone(); ++second) RunFor(absl::Seconds(1));
    for (const auto& caller : callers_) {
      if (!caller->is_done()) figures_.Wrong(caller->Where());
    }
  }

  // As kill -9: the connections to it break.
  void Kill(size_t replica) {
    replicas_[replica]->Kill();
    for (const auto& caller : callers_) {
      events_.After(Latency(), [caller = caller.get(), replica] { caller->Gone(replica); });
    }
  }
  void Stop(size_t replica, absl::Duration within) { replicas_[replica]->Stop(within); }
  void StoreGoesAway(absl::Duration within) { node_.GoAway(within); }
  // All connections of callers, as when a proxy between them and the replicas starts anew.
  void BreakAll() {
    for (const auto& caller : callers_) {
      events_.After(Latency(), [caller = caller.get()] { caller->Break(); });
    }
  }

  // What has been the most from now on.
  void Measure() {
    for (Gauge* gauge : {&figures_.under_way, &figures_.queued, &figures_.queued_bytes}) gauge->most = gauge->now;
    figures_.most_of_a_queue = 0;
    figures_.longest_stall = absl::ZeroDuration();
    figures_.tries = figures_.answered = figures_.takes = figures_.writes = figures_.full = figures_.replayed = 0;
  }
  const Figures& figures() const { return figures_; }
  const std::string& wrong() const { return figures_.wrong; }
  Events& events() { return events_; }

 private:
  bool IsDone() const {
    for (const auto& caller : callers_) {
      if (!caller->is_done()) return false;
    }
    return true;
  }
  absl::Duration Latency() { return events_.Between(terms_.least_latency, terms_.most_latency); }

  const Terms terms_;
  Figures figures_;
  Events events_;
  PaddedCodec codec_;
  StoreNode node_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<std::unique_ptr<Caller>> callers_;
};

}  // namespace rnnserve::storms
