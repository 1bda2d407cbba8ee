// SPDX-License-Identifier: Apache-2.0
// Replies of sessions count as long as they wait for their callers: repetitions, calls that join, states.
#include <gtest/gtest.h>

#include "tests/engine/support/remembering_cell.h"
#include "tests/server/sessions/execution/live_sessions.h"

namespace rnnserve {
namespace {

constexpr int64_t kHidden = 256;

class SessionMemory : public testing::Test {
 protected:
  SessionMemory() : live_({.max_bytes_in_flight = 4 << 20}) {
    OpenCall open;
    open.target = RememberingOperator(kHidden);
    const std::vector<OwnedTensor> weights = RememberingWeights(kHidden);
    open.weights = Views(weights);
    open.rows = 16;
    open.window_bytes = 4 << 20;
    session_ = live_.Open(std::move(open)).value();
  }
  ApplyReply Chunk(uint64_t number) {
    OperationPipeline pipeline(live_.sessions());
    pipeline.Send(session_, number, {FilledTensor("X", DataType::kFloat, {64, 16, 1}, 1)});  // Y is 1 MiB
    return std::move(pipeline.Answers()[0]);
  }

  LiveSessions live_;
  std::string session_;
};

TEST_F(SessionMemory, RepetitionsCountUntilTheyHaveLeft) {
  ASSERT_TRUE(Chunk(1).status.ok());
  std::vector<ApplyReply> waiting;
  for (int k = 0; k < 3; ++k) {
    waiting.push_back(Chunk(1));
    ASSERT_TRUE(waiting.back().status.ok() && waiting.back().repeated) << waiting.back().status;
  }
  const ApplyReply refused = Chunk(1);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status)) << refused.status;
  EXPECT_EQ(refused.numbers.last_applied, 1u);
  waiting.pop_back();
  EXPECT_TRUE(Chunk(1).status.ok());
}

TEST_F(SessionMemory, WithoutMemoryAllOfAPipelineAreToldSo) {
  ASSERT_TRUE(Chunk(1).status.ok());
  std::vector<ByteBudget::Share> held;
  while (true) {
    absl::StatusOr<ByteBudget::Share> share = live_.core().TakeMemory(7, 64 << 10);
    if (!share.ok()) break;
    held.push_back(*std::move(share));
  }
  for (uint64_t number = 2; number <= 4; ++number) {
    EXPECT_TRUE(absl::IsResourceExhausted(Chunk(number).status)) << number;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(Chunk(1).status)) << "known as a repetition all the same";
  held.clear();
  EXPECT_TRUE(Chunk(2).status.ok());
  // As a stream says whose messages find no room.
  const absl::Status no_room = absl::ResourceExhaustedError("no room");
  EXPECT_EQ(NumbersOf(live_.sessions().Refused(session_, "", 3, no_room))->next_expected(), 3u);
  EXPECT_TRUE(absl::IsResourceExhausted(Chunk(4).status));
  EXPECT_TRUE(Chunk(3).status.ok());
}

TEST_F(SessionMemory, StatesCountUntilTheyHaveLeft) {
  std::vector<StateReply> waiting;
  for (;;) {
    absl::StatusOr<StateReply> state = live_.GetState(session_);
    if (!state.ok()) {
      EXPECT_TRUE(absl::IsResourceExhausted(state.status())) << state.status();
      break;
    }
    waiting.push_back(*std::move(state));
    ASSERT_LE(waiting.size(), 256u) << "16 KiB each of 4 MiB";
  }
  EXPECT_EQ(waiting.size(), 256u * 7 / 8) << "an eighth is kept for others";
  waiting.clear();
  EXPECT_TRUE(live_.GetState(session_).ok());
}

}  // namespace
}  // namespace rnnserve
