// SPDX-License-Identifier: Apache-2.0
#include "server/sessions/execution/session_owner.h"

#include <gtest/gtest.h>

#include "tests/engine/support/remembering_cell.h"
#include "tests/server/sessions/execution/live_sessions.h"

namespace rnnserve {
namespace {

class SessionOwnerTest : public testing::Test {
 protected:
  std::string Open() {
    OpenCall open;
    open.target = RememberingOperator(2);
    open.weights = Views(weights_);
    open.window_bytes = 4096;
    open.window_operations = 4;
    return live_.Open(std::move(open)).value();
  }
  // As a stream that owns what it names.
  absl::Status Apply(const std::string& session, uint64_t number, OperationKind kind, SessionOwner& owner) {
    OperationCall call;
    call.session = session;
    call.number = number;
    call.kind = std::move(kind);
    call.owner = &owner;
    absl::Status status;  // neither needs the engine, so the answer comes at once
    live_.sessions().Apply(std::move(call), [&](ApplyReply answer) { status = answer.status; });
    return status;
  }

  LiveSessions live_;
  const std::vector<OwnedTensor> weights_ = RememberingWeights(2);
};

TEST_F(SessionOwnerTest, SessionsThatHaveEndedAreForgotten) {
  SessionOwner owner;
  const std::string only = Open();
  ASSERT_TRUE(Apply(only, 1, CloseOp{}, owner).ok());
  SessionOwner late;  // a stream that asks for the reply of a session that has ended
  ASSERT_TRUE(Apply(only, 1, CloseOp{}, late).ok());
  EXPECT_EQ(late.size(), 0u);
  std::vector<std::string> kept;
  for (int k = 0; k < 3000; ++k) {
    const std::string session = Open();
    ASSERT_TRUE(Apply(session, 1, ResetOp{}, owner).ok());
    if (k % 300 == 0) {
      kept.push_back(session);
    } else {
      ASSERT_TRUE(Apply(session, 2, CloseOp{}, owner).ok());
    }
    ASSERT_LE(owner.size(), 2 * kept.size() + 4);
  }
  EXPECT_EQ(live_.sessions().KeysOf(owner).size(), kept.size());
  // Those that live are owned as before.
  SessionOwner other;
  for (const std::string& session : kept) {
    ASSERT_TRUE(Apply(session, 2, ResetOp{}, owner).ok());
    ASSERT_TRUE(Apply(session, 3, ResetOp{}, other).ok());
    EXPECT_TRUE(absl::IsAborted(Apply(session, 4, ResetOp{}, owner)));
  }
}

}  // namespace
}  // namespace rnnserve
