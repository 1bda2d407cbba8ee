// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/schedule.h"

#include <deque>
#include <unordered_map>
#include <vector>

#include "client/rnnctl/bench/arrivals.h"

namespace rnnserve::rnnctl::bench {
namespace {

// The first slot lies on top.
std::vector<size_t> AllSlots(const Load& load) {
  std::vector<size_t> slots;
  for (size_t slot = load.slots(); slot > 0; --slot) slots.push_back(slot - 1);
  return slots;
}

class ClosedLoop final : public Schedule {
 public:
  explicit ClosedLoop(const Load& load) : free_(AllSlots(load)) {}

  std::optional<Due> Next(Time now) override {
    if (free_.empty()) return std::nullopt;
    const size_t slot = free_.back();
    free_.pop_back();
    return Due{slot, now};
  }
  void Free(size_t slot) override { free_.push_back(slot); }
  std::optional<Time> wake() const override { return std::nullopt; }
  int64_t Unsent(Time) override { return 0; }

 private:
  std::vector<size_t> free_;
};

class OpenLoop final : public Schedule {
 public:
  OpenLoop(const Load& load, Time start) : free_(AllSlots(load)), arrivals_(load.rate, load.seed, start) {}

  std::optional<Due> Next(Time now) override {
    starved_ = free_.empty();
    if (starved_ || arrivals_.next() > now) return std::nullopt;
    const Due due{free_.back(), arrivals_.next()};
    free_.pop_back();
    arrivals_.Advance();
    return due;
  }
  void Free(size_t slot) override { free_.push_back(slot); }
  // With all slots taken only an answer helps.
  std::optional<Time> wake() const override {
    if (free_.empty()) return std::nullopt;
    return arrivals_.next();
  }
  int64_t Unsent(Time end) override {
    int64_t unsent = 0;
    // The answer that ended the measurement may just have freed a slot: not free then, at the last look.
    for (; starved_ && arrivals_.next() <= end; arrivals_.Advance()) ++unsent;
    return unsent;
  }

 private:
  std::vector<size_t> free_;
  PoissonArrivals arrivals_;
  bool starved_ = false;
};

class Sessions final : public Schedule {
 public:
  Sessions(const Load& load, Time start) : chunks_(MakeChunks(load, start)), busy_(load.slots()) {}

  std::optional<Due> Next(Time now) override {
    if (!ready_.empty()) {
      const Due due = ready_.front();
      ready_.pop_front();
      return due;
    }
    while (chunks_->next().at <= now) {
      const Due due{chunks_->next().slot, chunks_->next().at};
      chunks_->Advance();
      if (!busy_[due.slot]) {
        busy_[due.slot] = true;
        return due;
      }
      waiting_[due.slot].push_back(due.at);
      ++waiting_count_;
    }
    return std::nullopt;
  }

  void Free(size_t slot) override {
    const auto waiting = waiting_.find(slot);
    if (waiting == waiting_.end()) {
      busy_[slot] = false;
      return;
    }
    ready_.push_back({slot, waiting->second.front()});
    waiting->second.pop_front();
    if (waiting->second.empty()) waiting_.erase(waiting);
    --waiting_count_;
  }

  std::optional<Time> wake() const override { return chunks_->next().at; }
  int64_t Unsent(Time) override { return waiting_count_ + static_cast<int64_t>(ready_.size()); }

 private:
  static std::unique_ptr<ChunkArrivals> MakeChunks(const Load& load, Time start) {
    if (load.irregular) return MakeIrregularChunks(load.slots(), load.cadence, load.seed, start);
    return MakeRegularChunks(load.slots(), load.cadence, load.seed, start);
  }

  const std::unique_ptr<ChunkArrivals> chunks_;
  std::vector<bool> busy_;  // by slot
  std::unordered_map<size_t, std::deque<Time>> waiting_;
  int64_t waiting_count_ = 0;
  std::deque<Due> ready_;  // waited for its session, which is free now
};

}  // namespace

std::unique_ptr<Schedule> MakeSchedule(const Load& load, Time start) {
  if (load.rate > 0) return std::make_unique<OpenLoop>(load, start);
  if (load.cadence.count() > 0) return std::make_unique<Sessions>(load, start);
  return std::make_unique<ClosedLoop>(load);
}

}  // namespace rnnserve::rnnctl::bench
