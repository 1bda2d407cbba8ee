// SPDX-License-Identifier: Apache-2.0
#include "server/admin/status_history.h"

#include <gtest/gtest.h>

#include "server/telemetry/model_calls.h"
#include "server/telemetry/session_metrics.h"
#include "server/telemetry/work_metrics.h"

namespace rnnserve {
namespace {

class StatusHistoryTest : public testing::Test {
 protected:
  void Record() { history_.Record(now_ += StatusHistory::kStep); }
  StatusHistory::Point Last() const { return history_.Points().back(); }

  Metrics metrics_;
  ModelLabels labels_{8};
  ModelCalls calls_{metrics_, labels_};
  WorkMetricsTable work_{metrics_, labels_};
  SessionMetrics sessions_{metrics_, labels_};
  absl::Time now_ = absl::UnixEpoch();
  StatusHistory history_{&metrics_};
};

TEST_F(StatusHistoryTest, APointIsWhatCameSinceTheLookBefore) {
  calls_.Of("a").Record(absl::StatusCode::kOk, absl::Seconds(3));  // before the first look: of no point
  Record();
  EXPECT_TRUE(history_.Points().empty());
  for (int k = 0; k < 10; ++k) calls_.Of(k % 2 == 0 ? "a" : "b").Record(absl::StatusCode::kOk, absl::Milliseconds(2));
  work_.Of("a", "cpu")->slice_sequences->Observe(2);
  work_.Of("b", "onednn")->slice_sequences->Observe(5);
  sessions_.Of("a")->active->Add(3);
  Record();
  EXPECT_DOUBLE_EQ(Last().requests_per_second, 2);
  EXPECT_EQ(Last().sessions, 3);
  EXPECT_EQ(Last().sequences_per_slice, 3.5);
  EXPECT_NEAR(*Last().p99_ms, 2.9, 0.05) << "of both models, and not of what came before: within its bucket";
}

TEST_F(StatusHistoryTest, WhereNothingCameThereIsNoLatency) {
  Record();
  Record();
  EXPECT_EQ(Last().requests_per_second, 0);
  EXPECT_EQ(Last().sequences_per_slice, std::nullopt);
  EXPECT_EQ(Last().p99_ms, std::nullopt);
}

TEST_F(StatusHistoryTest, RatesGoByTheTimeThatPassed) {
  Record();
  calls_.Of("a").Record(absl::StatusCode::kOk, absl::Milliseconds(2));
  now_ += absl::Seconds(15);  // the machine was busy
  Record();
  EXPECT_DOUBLE_EQ(Last().requests_per_second, 1.0 / 20);
  history_.Record(now_);
  EXPECT_EQ(history_.Points().size(), 1u) << "no time has passed";
}

TEST_F(StatusHistoryTest, ItIsBounded) {
  for (size_t k = 0; k < StatusHistory::kMostPoints + 10; ++k) {
    sessions_.Of("a")->active->Add(1);
    Record();
  }
  EXPECT_EQ(history_.Points().size(), StatusHistory::kMostPoints);
  EXPECT_EQ(history_.Points().front().sessions, 11);
  EXPECT_EQ(Last().sessions, StatusHistory::kMostPoints + 10);
}

TEST(StatusRecorder, EndsAtOnce) {
  const Metrics metrics;
  for (int k = 0; k < 100; ++k) const StatusRecorder recorder(&metrics);
}

TEST(StatusRecorder, ServersWithoutTheseMetricsHaveAHistoryToo) {
  const Metrics metrics;
  StatusHistory history(&metrics);
  history.Record(absl::UnixEpoch());
  history.Record(absl::UnixEpoch() + absl::Seconds(5));
  EXPECT_EQ(history.Points().size(), 1u);
}

}  // namespace
}  // namespace rnnserve
