// SPDX-License-Identifier: Apache-2.0
// What windows cost, and what does not fit into them.
#include <gtest/gtest.h>

#include <future>

#include "base/field_error.h"
#include "tests/engine/support/remembering_cell.h"
#include "tests/server/sessions/execution/live_sessions.h"

namespace rnnserve {
namespace {

class SessionWindow : public testing::Test {
 protected:
  OpenCall Spec(int64_t hidden) {
    OpenCall open;
    open.target = RememberingOperator(hidden);
    weights_ = RememberingWeights(hidden);
    open.weights = Views(weights_);
    return open;
  }
  OpenReply Open(OpenCall call) {
    absl::StatusOr<OpenReply> opened = absl::UnknownError("not answered");
    live_.sessions().Open(std::move(call), [&](absl::StatusOr<OpenReply> reply) { opened = std::move(reply); });
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }
  ApplyReply Apply(const std::string& session, std::optional<uint64_t> number, OperationKind kind) {
    OperationCall call;
    call.session = session;
    call.number = number;
    call.kind = std::move(kind);
    call.owner = &owner_;
    std::promise<ApplyReply> told;  // by this thread, or by the one that still tells of the chunk before
    live_.sessions().Apply(std::move(call), [&](ApplyReply answer) { told.set_value(std::move(answer)); });
    return told.get_future().get();
  }

  LiveSessions live_;
  SessionOwner owner_;
  std::vector<OwnedTensor> weights_;
};

TEST_F(SessionWindow, TheDefaultIsCheapWhereRepliesAreSmall) {
  const OpenReply opened = Open(Spec(128));
  const int64_t charge = Session::Charge(opened.terms, SessionState{}) + 2 * 128 * 4;  // as of an LSTM
  EXPECT_LE(100'000 * charge, int64_t{16} << 30) << charge;
  EXPECT_GE(opened.terms.window.bytes, 256 * 128 * 4) << "256 steps of Y";
  OpenCall wanted = Spec(128);
  wanted.window_bytes = 5 << 20;
  EXPECT_EQ(Open(std::move(wanted)).terms.window.bytes, 5 << 20);
}

TEST_F(SessionWindow, TheDefaultTakesTheReplyOfAStepAndTheFinalState) {
  OpenCall open = Spec(1024);
  open.rows = 512;  // Y of one step: 2 MiB
  const OpenReply opened = Open(std::move(open));
  OperationPipeline pipeline(live_.sessions());
  pipeline.Send(opened.key, 1, {FilledTensor("X", DataType::kFloat, {1, 512, 1}, 1)});
  const ApplyReply step = std::move(pipeline.Answers()[0]);
  EXPECT_TRUE(step.status.ok()) << step.status;
  const ApplyReply closed = Apply(opened.key, 2, CloseOp{.return_state = true});
  EXPECT_TRUE(closed.status.ok()) << closed.status;
  const ApplyReply again = Apply(opened.key, 2, CloseOp{.return_state = true});
  EXPECT_TRUE(again.repeated) << again.status;
}

TEST_F(SessionWindow, WhereNoRepliesAreKeptNothingIsCharged) {
  OpenCall open = Spec(128);
  open.window_operations = 0;
  EXPECT_EQ(Open(std::move(open)).terms.window.bytes, 0);
}

TEST_F(SessionWindow, AChunkThatDoesNotFitIsToldTheSizeItNeeds) {
  OpenCall open = Spec(128);
  open.window_bytes = 10'000;
  const OpenReply opened = Open(std::move(open));
  OperationPipeline pipeline(live_.sessions());
  pipeline.Send(opened.key, 1, {FilledTensor("X", DataType::kFloat, {32, 1, 1}, 1)}, std::vector<std::string>{"Y"});
  const ApplyReply refused = std::move(pipeline.Answers()[0]);
  EXPECT_EQ(ReasonOf(refused.status), "LIMIT_EXCEEDED");
  EXPECT_EQ(LimitOf(refused.status)->limit, 10'000);
  EXPECT_EQ(LimitOf(refused.status)->value, 32 * 128 * 4 + OperationResult::kFixedBytes);
  EXPECT_EQ(refused.numbers.last_applied, 0u);
}

// The rows, and with them the size of the final state, are known only when the turn has come.
TEST_F(SessionWindow, ACloseWhoseStateDoesNotFitIsRefusedAndTheSessionLives) {
  OpenCall open = Spec(128);
  open.rows = 2;
  open.window_bytes = 2 * 128 * 4 + OperationResult::kFixedBytes;
  const OpenReply opened = Open(std::move(open));
  ASSERT_TRUE(Apply(opened.key, 1, SelectRowsOp{{0, 1, 0}}).status.ok());
  const ApplyReply refused = Apply(opened.key, 2, CloseOp{.return_state = true});
  EXPECT_EQ(ReasonOf(refused.status), "LIMIT_EXCEEDED") << refused.status;
  EXPECT_EQ(LimitOf(refused.status)->value, 3 * 128 * 4 + OperationResult::kFixedBytes);
  EXPECT_EQ(refused.numbers.last_applied, 1u);
  EXPECT_TRUE(Apply(opened.key, 1, SelectRowsOp{{0, 1, 0}}).repeated) << "kept replies stay";
  ASSERT_TRUE(Apply(opened.key, 2, SelectRowsOp{{0, 1}}).status.ok());
  EXPECT_TRUE(Apply(opened.key, 3, CloseOp{.return_state = true}).status.ok());
}

TEST_F(SessionWindow, AnUnnumberedCloseKeepsNothingSoAnyStateFits) {
  OpenCall open = Spec(128);
  open.window_bytes = 0;
  const OpenReply opened = Open(std::move(open));
  const ApplyReply closed = Apply(opened.key, std::nullopt, CloseOp{.return_state = true});
  ASSERT_TRUE(closed.status.ok()) << closed.status;
  EXPECT_FALSE(closed.result->final_state.empty());
}

}  // namespace
}  // namespace rnnserve
