// SPDX-License-Identifier: Apache-2.0
// sessions.md, section 2: exactly once.
#include "tests/server/sessions/contract/session_fixture.h"

namespace rnnserve {
namespace {

using absl::StatusCode;

class SessionNumbersTest : public SessionFixture {};

TEST_F(SessionNumbersTest, NumbersApplyInTurn) {
  const SessionPtr session = Open();
  for (uint64_t n = 1; n <= 3; ++n) {
    const ToldPtr told = Apply(session, n);
    ASSERT_TRUE(told->answered());
    EXPECT_EQ(told->outcome().numbers, (Numbers{n, n}));
    EXPECT_FALSE(told->outcome().repeated);
  }
  EXPECT_EQ(StateValue(session), 3);
}

// Rule 1.
TEST_F(SessionNumbersTest, ARepetitionIsAnsweredFromTheWindow) {
  const SessionPtr session = Open();
  for (uint64_t n = 1; n <= 4; ++n) Apply(session, n);
  for (uint64_t n = 1; n <= 4; ++n) {
    const ToldPtr again = Send(session, {.number = n, .content = n});
    EXPECT_EQ(again->granted, 0);
    ASSERT_TRUE(again->answered());
    EXPECT_TRUE(again->outcome().repeated);
    EXPECT_EQ(again->text(), std::to_string(n));
    EXPECT_EQ(again->outcome().numbers, (Numbers{n, n}));
  }
  EXPECT_EQ(StateValue(session), 4);
}

TEST_F(SessionNumbersTest, OtherContentUnderAUsedNumberIsAborted) {
  const SessionPtr session = Open();
  Apply(session, 1);
  const ToldPtr kept = Send(session, {.number = 1, .content = 99});
  EXPECT_EQ(kept->code(), StatusCode::kAborted);
  EXPECT_EQ(kept->reason(), "NUMBER_REUSED");
  const ToldPtr computing = Send(session, {.number = 2, .content = 2});
  const ToldPtr other = Send(session, {.number = 2, .content = 99});
  EXPECT_EQ(other->code(), StatusCode::kAborted);
  EXPECT_EQ(NumbersOf(other->outcome().status)->next_expected(), 2u);
  Commit(computing, 2);
  EXPECT_EQ(StateValue(session), 2);
}

TEST_F(SessionNumbersTest, OlderThanTheWindowAlreadyExists) {
  const SessionPtr session = Open();
  for (uint64_t n = 1; n <= 5; ++n) Apply(session, n);
  const ToldPtr old = Send(session, {.number = 1, .content = 1});
  EXPECT_EQ(old->code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(NumbersOf(old->outcome().status)->last_applied, 5u);
}

TEST_F(SessionNumbersTest, TooHighIsOutOfRange) {
  const SessionPtr session = Open();
  EXPECT_EQ(Send(session, {.number = 2})->code(), StatusCode::kOutOfRange);
  const ToldPtr first = Send(session, {.number = 1, .content = 1});
  EXPECT_EQ(Send(session, {.number = 3})->code(), StatusCode::kOutOfRange);
  const ToldPtr second = Send(session, {.number = 2, .content = 2});
  EXPECT_FALSE(second->answered());
  Commit(first, 1);
  Commit(second, 2);
  EXPECT_EQ(Send(session, {.number = 0})->code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Send(session, {.number = ~uint64_t{0}})->code(), StatusCode::kOutOfRange);
}

// Rule 2.
TEST_F(SessionNumbersTest, ARepetitionJoinsWhatIsInFlight) {
  const SessionPtr session = Open();
  const ToldPtr first = Send(session, {.number = 1, .content = 1});
  const ToldPtr queued = Send(session, {.number = 2, .content = 2});
  const ToldPtr first_again = Send(session, {.number = 1, .content = 1});
  const ToldPtr queued_again = Send(session, {.number = 2, .content = 2});
  EXPECT_FALSE(first_again->answered());
  Commit(first, 1);
  EXPECT_EQ(first_again->text(), "1");
  Commit(queued, 2);
  EXPECT_EQ(queued_again->text(), "2");
  EXPECT_EQ(first_again->granted + queued_again->granted, 0);
  EXPECT_EQ(StateValue(session), 2);
}

// Rule 3.
TEST_F(SessionNumbersTest, ATimeoutBeforeTheCommitLeavesTheSessionAsItWas) {
  const SessionPtr session = Open();
  Apply(session, 1);
  const ToldPtr late = Send(session, {.number = 2, .content = 2, .deadline = clock_.Now() + absl::Seconds(5)});
  clock_.Move(absl::Seconds(5));
  Commit(late, 2);
  EXPECT_EQ(late->code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(StateValue(session), 1);
  const ToldPtr again = Send(session, {.number = 2, .content = 2, .deadline = clock_.Now() + absl::Seconds(5)});
  clock_.Move(absl::Seconds(5) - absl::Nanoseconds(1));
  Commit(again, 22);
  EXPECT_TRUE(again->outcome().status.ok());
  clock_.Move(absl::Seconds(5));
  EXPECT_EQ(Send(session, {.number = 2, .content = 2})->text(), "22") << "after the commit the operation counts";
}

TEST_F(SessionNumbersTest, ATimeoutThatPassesInTheQueueIsNotComputed) {
  const SessionPtr session = Open();
  const ToldPtr first = Send(session, {.number = 1, .content = 1});
  const ToldPtr queued = Send(session, {.number = 2, .content = 2, .deadline = clock_.Now() + absl::Seconds(5)});
  const ToldPtr above = Send(session, {.number = 3, .content = 3});
  clock_.Move(absl::Seconds(5));
  Commit(first, 1);
  EXPECT_EQ(queued->granted, 0);
  EXPECT_EQ(queued->code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(above->code(), StatusCode::kAborted);
}

// However long the one before it computes.
TEST_F(SessionNumbersTest, ATimeoutThatPassesInTheQueueIsToldAtOnce) {
  OpenSpec spec = Spec();
  spec.terms.max_in_flight = 8;
  const SessionPtr session = OpenWith(std::move(spec));
  const ToldPtr first = Send(session, {.number = 1, .content = 1});
  const auto after_first = Read(session, 1);
  const ToldPtr second = Send(session, {.number = 2, .content = 2, .deadline = clock_.Now() + absl::Seconds(9)});
  const ToldPtr third = Send(session, {.number = 3, .content = 3, .deadline = clock_.Now() + absl::Seconds(5)});
  const auto after_third = Read(session, 3);
  const auto in_turn = Read(session, {}, /*in_order=*/true);
  clock_.Move(absl::Seconds(5) - absl::Nanoseconds(1));
  sessions().EndTimeouts();
  EXPECT_FALSE(third->answered());
  clock_.Move(absl::Nanoseconds(1));
  sessions().EndTimeouts();
  EXPECT_EQ(third->code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ((*after_third->snapshot).status().code(), StatusCode::kAborted) << "its number is unused";
  EXPECT_FALSE(second->answered()) << "it has time left";
  const ToldPtr above = Send(session, {.number = 3, .content = 33});
  clock_.Move(absl::Seconds(4));
  sessions().EndTimeouts();
  EXPECT_EQ(second->code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(above->code(), StatusCode::kAborted);
  EXPECT_EQ(above->reason(), "PREVIOUS_FAILED");
  EXPECT_EQ(second->granted + third->granted + above->granted, 0);
  EXPECT_FALSE(first->answered() || after_first->snapshot || in_turn->snapshot);
  Commit(first, 1);
  EXPECT_TRUE(first->outcome().status.ok());
  EXPECT_EQ(ValueOf((**after_first->snapshot).state), 1);
  EXPECT_EQ((**in_turn->snapshot).numbers.last_applied, 1u);
  Commit(Send(session, {.number = 2, .content = 22}), 22);
  EXPECT_EQ(StateValue(session), 22);
}

TEST_F(SessionNumbersTest, ATimeoutOfWhatComputesIsNotTheQueues) {
  const SessionPtr session = Open();
  const ToldPtr first = Send(session, {.number = 1, .content = 1, .deadline = clock_.Now() + absl::Seconds(5)});
  const ToldPtr second = Send(session, {.number = 2, .content = 2, .deadline = clock_.Now() + absl::Seconds(6)});
  Commit(first, 1);
  clock_.Move(absl::Seconds(7));
  sessions().EndTimeouts();
  EXPECT_FALSE(second->answered());
  Commit(second, 2);
  EXPECT_EQ(second->code(), StatusCode::kDeadlineExceeded);
}

// Rule 4.
TEST_F(SessionNumbersTest, AFailedNumberStaysUnusedAndThoseAboveAreAborted) {
  const SessionPtr session = Open();
  const ToldPtr first = Send(session, {.number = 1, .content = 1});
  const ToldPtr second = Send(session, {.number = 2, .content = 2});
  const ToldPtr third = Send(session, {.number = 3, .content = 3});
  Fail(first, absl::InvalidArgumentError("wrong"));
  EXPECT_EQ(first->code(), StatusCode::kInvalidArgument);
  for (const ToldPtr& above : {second, third}) {
    EXPECT_EQ(above->granted, 0);
    EXPECT_EQ(above->code(), StatusCode::kAborted);
    EXPECT_EQ(above->reason(), "PREVIOUS_FAILED");
    EXPECT_EQ(NumbersOf(above->outcome().status)->next_expected(), 1u);
  }
  Commit(Send(session, {.number = 1, .content = 77}), 77);
  EXPECT_EQ(StateValue(session), 77);
}

TEST_F(SessionNumbersTest, AWrongOperationTakesNoNumber) {
  const SessionPtr session = Open();
  EXPECT_EQ(Send(session, {.number = 1, .fault = absl::InvalidArgumentError("bad")})->code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Send(session, {.number = 2, .fault = absl::InvalidArgumentError("bad")})->code(), StatusCode::kOutOfRange);
  Apply(session, 1);
  EXPECT_EQ(StateValue(session), 1);
}

// Behind an operation that was refused for a reason that will pass.
TEST_F(SessionNumbersTest, BehindAFullSessionTheReasonIsTheSame) {
  const SessionPtr session = Open();
  std::vector<ToldPtr> accepted;
  for (uint64_t n = 1; n <= 4; ++n) accepted.push_back(Send(session, {.number = n, .content = n}));
  for (uint64_t n = 5; n <= 8; ++n) {
    const ToldPtr refused = Send(session, {.number = n, .content = n});
    EXPECT_EQ(refused->code(), StatusCode::kResourceExhausted) << n;
    EXPECT_EQ(refused->reason(), "TOO_MANY_IN_FLIGHT") << n;
    EXPECT_EQ(refused->outcome().numbers.next_expected(), 1u);
  }
  EXPECT_EQ(Send(session, {.number = 10})->reason(), "NUMBER_TOO_HIGH") << "a gap is still one";
  Commit(accepted[0], 1);
  EXPECT_EQ(Send(session, {.number = 6, .content = 6})->reason(), "TOO_MANY_IN_FLIGHT") << "5 goes first";
  EXPECT_FALSE(Send(session, {.number = 5, .content = 5})->answered());
  EXPECT_EQ(Send(session, {.number = 7})->reason(), "NUMBER_TOO_HIGH") << "the reason has passed";
}

TEST_F(SessionNumbersTest, BehindADrainingSessionTheReasonIsTheSame) {
  const SessionPtr session = Open();
  const ToldPtr accepted = Send(session, {.number = 1, .content = 1});
  sessions().StartDrain();
  for (uint64_t n = 2; n <= 5; ++n) {
    const ToldPtr refused = Send(session, {.number = n, .content = n, .closes = n == 5});
    EXPECT_EQ(refused->code(), StatusCode::kUnavailable) << n;
    EXPECT_EQ(refused->reason(), "DRAINING") << n;
  }
  Commit(accepted, 1);
  Commit(Send(session, {.number = 2, .content = 5, .closes = true}), 2, true);
}

TEST_F(SessionNumbersTest, BehindAnOperationWithoutMemoryTheReasonIsTheSame) {
  const SessionPtr session = Open();
  const absl::Status no_memory = absl::ResourceExhaustedError("no memory");
  const auto expect_same = [&](uint64_t number) {
    const ToldPtr behind = Send(session, {.number = number, .content = number});
    EXPECT_EQ(behind->code(), StatusCode::kResourceExhausted) << number;
    EXPECT_NE(behind->outcome().status.message().find("no memory"), absl::string_view::npos);
  };
  EXPECT_EQ(Send(session, {.number = 1, .fault = no_memory})->code(), StatusCode::kResourceExhausted);
  expect_same(2);
  expect_same(3);
  // Accepted, and then there is none.
  const ToldPtr first = Send(session, {.number = 1, .content = 1}), second = Send(session, {.number = 2, .content = 2});
  Fail(first, no_memory);
  EXPECT_EQ(second->reason(), "PREVIOUS_FAILED");
  expect_same(3);
  // Refused before they came to the session.
  Apply(session, 1);
  EXPECT_EQ(session->NoteRefused(2, no_memory).last_applied, 1u);
  session->NoteRefused(3, no_memory);
  expect_same(4);
  EXPECT_EQ(Send(session, {.number = 6})->reason(), "NUMBER_TOO_HIGH");
  Apply(session, 2);
}

// The tenant's rate.
TEST_F(SessionNumbersTest, BehindAnOperationAboveTheRateTheReasonIsTheSame) {
  options_.tenant.operations_per_second = 2;
  const SessionPtr session = Open();
  Apply(session, 1);
  EXPECT_EQ(Send(session, {.number = 2})->reason(), "QUOTA_EXCEEDED");
  clock_.Move(absl::Milliseconds(500));
  EXPECT_EQ(Send(session, {.number = 3})->reason(), "QUOTA_EXCEEDED");
}

TEST_F(SessionNumbersTest, ALeaseLetGoFailsItsOperation) {
  const SessionPtr session = Open();
  const ToldPtr first = Send(session, {.number = 1, .content = 1});
  first->lease.reset();
  EXPECT_EQ(first->code(), StatusCode::kInternal);
  Apply(session, 1);
}

// Rule 5.
TEST_F(SessionNumbersTest, WithoutNumbersOneIsInFlight) {
  const SessionPtr session = Open();
  const ToldPtr first = Send(session, {.content = 1});
  EXPECT_EQ(Send(session, {.content = 1})->code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Send(session, {.number = 1, .content = 1})->code(), StatusCode::kAborted) << "the number is taken";
  Commit(first, 1);
  EXPECT_EQ(first->outcome().number, 1u);
  EXPECT_EQ(Send(session, {.number = 1, .content = 1})->code(), StatusCode::kAlreadyExists) << "no protection";
  const ToldPtr again = Send(session, {.content = 1});
  Commit(again, 2);
  EXPECT_EQ(again->outcome().numbers.last_applied, 2u) << "applied once more";
}

// Rule 6.
TEST_F(SessionNumbersTest, TheNewestAttachmentOwnsTheSession) {
  const SessionPtr session = Open();
  const Attachment a = sessions().Attach(), b = sessions().Attach();
  const ToldPtr computing = Send(session, {.number = 1, .content = 1, .attachment = a});
  const ToldPtr queued = Send(session, {.number = 2, .content = 2, .attachment = a});
  const ToldPtr queued_too = Send(session, {.number = 3, .content = 3, .attachment = a});
  const ToldPtr takes_over = Send(session, {.number = 2, .content = 22, .attachment = b});
  for (const ToldPtr& old : {queued, queued_too}) {
    EXPECT_EQ(old->code(), StatusCode::kAborted);
    EXPECT_EQ(old->reason(), "OLDER_OWNER");
    EXPECT_EQ(old->granted, 0);
  }
  EXPECT_FALSE(computing->answered()) << "may commit first";
  Commit(computing, 1);
  Commit(takes_over, 22);
  EXPECT_EQ(StateValue(session), 22);
  EXPECT_EQ(Send(session, {.number = 3, .content = 3, .attachment = a})->reason(), "OLDER_OWNER");
  Commit(Send(session, {.number = 3, .content = 3, .attachment = b}), 3);
}

TEST_F(SessionNumbersTest, TheSuccessorJoinsWhatItsPredecessorHadInFlight) {
  const SessionPtr session = Open();
  const Attachment a = sessions().Attach(), b = sessions().Attach();
  const ToldPtr computing = Send(session, {.number = 1, .content = 1, .attachment = a});
  const ToldPtr queued = Send(session, {.number = 2, .content = 2, .attachment = a});
  const ToldPtr joined = Send(session, {.number = 1, .content = 1, .attachment = b});
  const ToldPtr joined_too = Send(session, {.number = 2, .content = 2, .attachment = b});
  Commit(computing, 1);
  EXPECT_EQ(joined->text(), "1");
  Commit(queued, 2);
  EXPECT_EQ(joined_too->text(), "2");
  EXPECT_EQ(StateValue(session), 2);
}

TEST_F(SessionNumbersTest, ReplyThatCannotBeKeptIsRefusedBeforeCompute) {
  const SessionPtr session = Open();
  const ToldPtr large = Send(session, {.number = 1, .reply_bytes = 1001});
  EXPECT_EQ(large->code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(large->reason(), "LIMIT_EXCEEDED");
  EXPECT_NE(large->outcome().status.message().find("1001"), absl::string_view::npos);
  EXPECT_EQ(large->granted, 0);
  const ToldPtr unnumbered = Send(session, {.reply_bytes = 1001});
  EXPECT_EQ(unnumbered->granted, 1) << "is not kept";
}

TEST_F(SessionNumbersTest, TheInFlightLimitHolds) {
  const SessionPtr session = Open();
  std::vector<ToldPtr> accepted;
  for (uint64_t n = 1; n <= 4; ++n) accepted.push_back(Send(session, {.number = n, .content = n}));
  const ToldPtr fifth = Send(session, {.number = 5, .content = 5});
  EXPECT_EQ(fifth->code(), StatusCode::kResourceExhausted);
  for (uint64_t n = 1; n <= 4; ++n) Commit(accepted[n - 1], static_cast<int64_t>(n));
  Apply(session, 5);
}

TEST_F(SessionNumbersTest, RepliesKeepTheirOrderEvenWhenACallbackCommits) {
  OpenSpec spec = Spec();
  spec.terms.max_in_flight = 1000;
  spec.terms.window = {1000, 100000};
  const SessionPtr session = OpenWith(std::move(spec));
  const ToldPtr first = Send(session, {.number = 1, .content = 1});
  std::vector<uint64_t> order;
  for (uint64_t n = 2; n <= 500; ++n) {
    Claim claim;
    claim.number = n;
    claim.granted = [](Lease lease) {  // as an operation that needs no engine
      Change change{StateOf(1), 0, std::make_shared<TextReply>(""), false};
      std::move(lease).Commit(std::move(change));
    };
    claim.done = [&order](Outcome outcome) { order.push_back(outcome.number); };
    sessions().Acquire(session, std::move(claim));
  }
  Commit(first, 1);
  ASSERT_EQ(order.size(), 499u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

}  // namespace
}  // namespace rnnserve
