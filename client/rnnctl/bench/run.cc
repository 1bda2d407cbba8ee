// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/run.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace rnnserve::rnnctl::bench {
namespace {

constexpr int64_t kWindowAnswers = 10;
constexpr int kLongestWindow = 10;

class LevelRun {
 public:
  LevelRun(Sender& caller, const Load& load, const Stopping& stopping, const Hooks& hooks)
      : caller_(caller), stopping_(stopping), hooks_(hooks), calls_(load.slots()) {
    level_.load = load;
  }

  Level Run() {
    const Time start = caller_.Now();
    next_tick_ = start;
    measure_from_ = start + stopping_.warm_up;
    schedule_ = MakeSchedule(level_.load, start);
    while (!WarmUpIsOver()) Turn(measure_from_);
    OpenWindow(interrupted_ ? caller_.Now() : std::max(measure_from_, caller_.Now()));
    while (!over_) Turn(WindowEnd());
    Finish();
    return std::move(level_);
  }

 private:
  struct Call {
    Time due{0};
    Time sent{0};
  };

  bool WarmUpIsOver() { return interrupted_ || caller_.Now() >= measure_from_; }

  // Sends what is due, waits for one answer until `until` at most, and looks whether the window or all is over.
  void Turn(Time until) {
    SendDue();
    level_.load.tick.count() > 0 ? AwaitTick(until) : AwaitAnswer(until);
    if (window_open_) LookAtWindow();
    if (hooks_.interrupted && hooks_.interrupted()) Interrupt();
  }

  void AwaitAnswer(Time until) {
    Time wake = std::min(until, caller_.Now() + kLookUp);
    const std::optional<Time> due = schedule_->wake();
    const bool awaits_due = due && *due < wake;
    if (awaits_due) wake = *due;
    Answer answer;
    if (caller_.Wait(wake, awaits_due, answer)) Take(answer);
  }

  // Takes the answers that have come until the next tick, all at once.
  void AwaitTick(Time until) {
    const Time tick = level_.load.tick, now = caller_.Now();
    if (next_tick_ <= now) next_tick_ += ((now - next_tick_) / tick + 1) * tick;
    const Time wake = std::min(until, next_tick_);
    caller_.Sleep(wake);
    Answer answer;
    while (caller_.Now() < wake + tick && caller_.Wait(wake, false, answer)) Take(answer);
  }

  void SendDue() {
    Time now = caller_.Now();
    while (const std::optional<Due> due = schedule_->Next(now)) {
      calls_[due->slot] = {due->at, now};
      ++in_flight_;
      caller_.Send(due->slot, hooks_.next_request(), due->at);
      now = caller_.Now();
    }
  }

  void Take(const Answer& answer) {
    const Call& call = calls_[answer.slot];
    schedule_->Free(answer.slot);
    --in_flight_;
    if (!window_open_) return;
    window_.Record(answer, caller_.Now() - call.due, call.sent - call.due);
  }

  void OpenWindow(Time now) {
    window_ = Tally();
    window_open_ = true;
    window_start_ = now;
    window_cpu_ = caller_.CpuTime();
    if (!measured_from_) measured_from_ = now;
  }

  Time WindowEnd() const {
    const bool few = !stopping_.duration && window_.answered() < kWindowAnswers;
    Time end = window_start_ + stopping_.window * (few ? kLongestWindow : 1);
    if (stopping_.duration) end = std::min(end, *measured_from_ + *stopping_.duration);
    return end;
  }

  void LookAtWindow() {
    const Time now = caller_.Now();
    const bool enough = stopping_.requests && answered_ + window_.answered() >= *stopping_.requests;
    if (now >= WindowEnd() || enough) CloseWindow(now);
  }

  void CloseWindow(Time now) {
    window_.span = now - window_start_;
    window_.cpu = caller_.CpuTime() - window_cpu_;
    answered_ += window_.answered();
    ++level_.windows;
    if (hooks_.progress) hooks_.progress(level_.windows, window_);
    level_.tally.Merge(window_);
    last_.push_back(window_);
    if (last_.size() > kStableWindows) last_.pop_front();
    EndIfDecided(now);
    OpenWindow(now);
  }

  void EndIfDecided(Time now) {
    if (stopping_.duration && now >= *measured_from_ + *stopping_.duration) return End(Ended::kDuration);
    if (stopping_.requests && answered_ >= *stopping_.requests) return End(Ended::kRequests);
    if (stopping_.duration || stopping_.requests) return;
    if (last_.back().good() == 0 && last_.back().failed() > 0) return End(Ended::kFailing);
    std::deque<WindowFigures> figures;
    for (const Tally& window : last_) figures.push_back(window.Figures());
    if (IsStable(figures, stopping_.stability)) {
      level_.tally = Tally();
      for (const Tally& window : last_) level_.tally.Merge(window);
      return End(Ended::kStable);
    }
    if (level_.windows >= stopping_.max_windows) End(Ended::kUnstable);
  }

  void End(Ended ended) {
    level_.ended = ended;
    over_ = true;
  }

  void Interrupt() {
    if (over_) return;
    interrupted_ = true;
    if (window_open_) {
      const Time now = caller_.Now();
      window_.span = now - window_start_;
      window_.cpu = caller_.CpuTime() - window_cpu_;
      level_.tally.Merge(window_);
    }
    End(Ended::kInterrupted);
  }

  // Waits for the answers under way. In an open loop they count, for their requests were due in time: leaving them out
  // would leave out the slowest.
  void Finish() {
    if (interrupted_) return;
    level_.unsent = schedule_->Unsent(caller_.Now());
    Tally late;
    while (in_flight_ > 0) {
      Answer answer;
      if (caller_.Wait(caller_.Now() + kLookUp, false, answer)) {
        const Call call = calls_[answer.slot];
        --in_flight_;
        if (level_.load.open()) late.Record(answer, caller_.Now() - call.due, call.sent - call.due);
      }
      if (hooks_.interrupted && hooks_.interrupted()) {
        level_.ended = Ended::kInterrupted;
        break;
      }
    }
    late.late = late.good();
    level_.tally.Merge(late);
  }

  Sender& caller_;
  const Stopping& stopping_;
  const Hooks& hooks_;
  Level level_;
  std::vector<Call> calls_;  // by slot
  size_t in_flight_ = 0;
  std::unique_ptr<Schedule> schedule_;
  Time next_tick_{0};
  Time measure_from_{0};
  std::optional<Time> measured_from_;
  Tally window_;
  bool window_open_ = false;
  Time window_start_{0};
  std::chrono::nanoseconds window_cpu_{0};
  std::deque<Tally> last_;
  int64_t answered_ = 0;
  bool over_ = false;
  bool interrupted_ = false;
};

}  // namespace

Level RunLevel(Sender& caller, const Load& load, const Stopping& stopping, const Hooks& hooks) {
  return LevelRun(caller, load, stopping, hooks).Run();
}

}  // namespace rnnserve::rnnctl::bench
