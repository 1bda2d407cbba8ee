// SPDX-License-Identifier: Apache-2.0
// sessions.md, section 2, rule 6, and what Open says of a session that is there (section 1): its owner, owner epochs,
// attaching.
#include "tests/server/sessions/contract/session_fixture.h"

namespace rnnserve {
namespace {

using absl::StatusCode;

class SessionOwnersTest : public SessionFixture {
 protected:
  OpenSpec Named(std::string request = "", uint64_t content = 0) {
    OpenSpec spec = Spec();
    spec.name = "n";
    spec.attach = true;
    spec.request = {std::move(request), {content, 0}};
    return spec;
  }
  // A stream's own, numbered.
  ToldPtr SendBy(Attachment attachment, const SessionPtr& session, uint64_t number, uint64_t content) {
    return Send(session, {.number = number, .content = content, .attachment = attachment});
  }
};

// Only what is accepted as new takes the session from its stream.
TEST_F(SessionOwnersTest, RefusedAndRepeatedOperationsLeaveTheSessionToItsOwner) {
  const SessionPtr session = Open();
  const Attachment stream = sessions().Attach();
  Apply(session, 1, stream);
  Apply(session, 2, stream);
  EXPECT_EQ(SendBy(sessions().Attach(), session, 2, 2)->text(), "2") << "kept replies are for all who have the key";
  EXPECT_EQ(SendBy(sessions().Attach(), session, 2, 99)->reason(), "NUMBER_REUSED");
  EXPECT_EQ(SendBy(sessions().Attach(), session, 9, 9)->code(), StatusCode::kOutOfRange);
  EXPECT_EQ(SendBy(sessions().Attach(), session, 0, 9)->code(), StatusCode::kInvalidArgument);
  const ToldPtr wrong = Send(session, {.number = 3,
                                       .content = 3,
                                       .attachment = sessions().Attach(),
                                       .fault = absl::InvalidArgumentError("wrong shape")});
  EXPECT_EQ(wrong->code(), StatusCode::kInvalidArgument);
  const ToldPtr large =
      Send(session, {.number = 3, .content = 3, .attachment = sessions().Attach(), .reply_bytes = 1001});
  EXPECT_EQ(large->reason(), "LIMIT_EXCEEDED");
  Read(session);
  const ToldPtr third = SendBy(stream, session, 3, 3);
  ASSERT_EQ(third->granted, 1) << "it is the stream's all along";
  Commit(third, 3);
  Apply(session, 4, sessions().Attach());
  EXPECT_EQ(SendBy(stream, session, 5, 5)->reason(), "OLDER_OWNER") << "taken by one that was new";
  EXPECT_EQ(SendBy(stream, session, 3, 3)->text(), "3") << "owner or not";
  EXPECT_EQ(SendBy(stream, session, 4, 4)->text(), "4");
  EXPECT_EQ(SendBy(stream, session, 4, 5)->reason(), "NUMBER_REUSED");
}

// Also if that shows only when its turn comes.
TEST_F(SessionOwnersTest, AnOperationThatFailsGivesTheSessionBack) {
  const SessionPtr session = Open();
  const Attachment stream = sessions().Attach(), other = sessions().Attach();
  Apply(session, 1, stream);
  const ToldPtr fails = SendBy(other, session, 2, 2), behind = SendBy(other, session, 3, 3);
  EXPECT_EQ(SendBy(stream, session, 4, 4)->reason(), "OLDER_OWNER");
  Fail(fails, absl::InvalidArgumentError("other rows"));
  EXPECT_EQ(behind->reason(), "PREVIOUS_FAILED");
  const ToldPtr second = SendBy(stream, session, 2, 22);
  const ToldPtr takes_over = SendBy(other, session, 3, 33);
  Commit(second, 22);
  Fail(takes_over, absl::InternalError("engine"));
  Apply(session, 3, stream);
  const ToldPtr applied = SendBy(other, session, 4, 4), fails_later = SendBy(other, session, 5, 5);
  Commit(applied, 4);
  Fail(fails_later, absl::InternalError("engine"));
  EXPECT_EQ(SendBy(stream, session, 5, 5)->reason(), "OLDER_OWNER") << "one was applied";
}

TEST_F(SessionOwnersTest, JoiningLeavesTheSessionToItsOwner) {
  const SessionPtr session = Open();
  const Attachment stream = sessions().Attach();
  const ToldPtr first = SendBy(stream, session, 1, 1), second = SendBy(stream, session, 2, 2);
  const ToldPtr joined = SendBy(sessions().Attach(), session, 2, 2);
  EXPECT_EQ(SendBy(sessions().Attach(), session, 1, 99)->reason(), "NUMBER_REUSED");
  const ToldPtr third = SendBy(stream, session, 3, 3);
  EXPECT_FALSE(second->answered() || third->answered());
  Commit(first, 1);
  Commit(second, 2);
  EXPECT_EQ(joined->text(), "2");
  Commit(third, 3);
  EXPECT_EQ(StateValue(session), 3);
}

// A client that comes back sends what has no answer again, and then goes on.
TEST_F(SessionOwnersTest, ANewOwnerKeepsWhatItHasJoined) {
  const SessionPtr session = Open();
  const Attachment before = sessions().Attach(), after = sessions().Attach();
  const ToldPtr first = SendBy(before, session, 1, 1), second = SendBy(before, session, 2, 2);
  const ToldPtr again = SendBy(after, session, 2, 2);
  const ToldPtr third = SendBy(after, session, 3, 3);
  EXPECT_FALSE(second->answered()) << "the new owner wants it, too";
  Commit(first, 1);
  Commit(second, 2);
  EXPECT_EQ(again->text(), "2");
  Commit(third, 3);
  EXPECT_EQ(SendBy(before, session, 4, 4)->reason(), "OLDER_OWNER");
}

TEST_F(SessionOwnersTest, AnOlderOwnersQueueDoesNotFillANewOnesLimit) {
  const SessionPtr session = Open();
  const Attachment before = sessions().Attach(), after = sessions().Attach();
  std::vector<ToldPtr> old;
  for (uint64_t n = 1; n <= 4; ++n) old.push_back(SendBy(before, session, n, n));
  const ToldPtr takes_over = SendBy(after, session, 2, 22);
  EXPECT_FALSE(takes_over->answered());
  for (size_t k = 1; k < 4; ++k) EXPECT_EQ(old[k]->reason(), "OLDER_OWNER");
  Commit(old[0], 1);
  Commit(takes_over, 22);
  EXPECT_EQ(StateValue(session), 22);
}

// What is next depends on what the caller would displace.
TEST_F(SessionOwnersTest, NothingIsDisplacedForAnOperationThatIsOutOfTurn) {
  const SessionPtr session = Open();
  const Attachment before = sessions().Attach(), after = sessions().Attach();
  const ToldPtr first = SendBy(before, session, 1, 1), second = SendBy(before, session, 2, 2),
                third = SendBy(before, session, 3, 3);
  EXPECT_EQ(SendBy(after, session, 3, 33)->reason(), "NUMBER_REUSED");
  EXPECT_EQ(SendBy(after, session, 4, 4)->code(), StatusCode::kOutOfRange);
  Commit(first, 1);
  Commit(second, 2);
  Commit(third, 3);
  Apply(session, 4, before);
}

TEST_F(SessionOwnersTest, AStaleOwnerEpochIsFenced) {
  const absl::StatusOr<OpenedSession> opened = sessions().Open(Named());
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(opened->is_new);
  const SessionPtr session = opened->session;
  const uint64_t first = opened->owner_epoch;
  Commit(Send(session, {.number = 1, .content = 1, .owner_epoch = first}), 1);
  const absl::StatusOr<OpenedSession> attached = sessions().Open(Named());
  EXPECT_FALSE(attached->is_new);
  EXPECT_EQ(attached->key, opened->key);
  EXPECT_GT(attached->owner_epoch, first);
  for (const Attachment attachment : {kNoAttachment, sessions().Attach()}) {
    const std::optional<uint64_t> number = attachment == kNoAttachment ? std::nullopt : std::optional<uint64_t>(2);
    const ToldPtr stale =
        Send(session, {.number = number, .content = 2, .attachment = attachment, .owner_epoch = first});
    EXPECT_EQ(stale->code(), StatusCode::kAborted);
    EXPECT_EQ(stale->reason(), "FENCED");
    EXPECT_EQ(stale->outcome().numbers.last_applied, 1u);
    EXPECT_EQ(stale->granted, 0);
  }
  EXPECT_EQ(Send(session, {.number = 2, .owner_epoch = attached->owner_epoch + 1})->reason(), "FENCED")
      << "one that was never given";
  EXPECT_EQ(Send(session, {.number = 1, .content = 1, .owner_epoch = first})->text(), "1") << "it was applied";
  EXPECT_EQ(Send(session, {.number = 1, .content = 2, .owner_epoch = first})->reason(), "FENCED") << "this was not";
  EXPECT_EQ(Send(session, {.number = 9, .content = 2, .owner_epoch = first})->reason(), "FENCED");
  const ToldPtr newest = Send(session, {.number = 2, .content = 22, .owner_epoch = attached->owner_epoch});
  Commit(newest, 22);
  Commit(Send(session, {.number = 3, .content = 3}), 3);  // without one, as before
  EXPECT_EQ(StateValue(session), 3);
}

TEST_F(SessionOwnersTest, AFencedOperationTakesNothing) {
  const SessionPtr session = OpenWith(Named());
  const Attachment stream = sessions().Attach();
  Apply(session, 1, stream);
  sessions().Open(Named()).IgnoreError();
  const ToldPtr zombie =
      Send(session,
           {.number = 2, .content = 2, .attachment = sessions().Attach(), .owner_epoch = Session::kFirstOwnerEpoch});
  EXPECT_EQ(zombie->reason(), "FENCED");
  Apply(session, 2, stream);
}

TEST_F(SessionOwnersTest, ARepeatedOpenRaisesNoEpoch) {
  const absl::StatusOr<OpenedSession> made = sessions().Open(Named("made")),
                                      made_again = sessions().Open(Named("made"));
  EXPECT_TRUE(made->is_new && made_again->is_new) << "the same answer";
  EXPECT_EQ(made->owner_epoch, made_again->owner_epoch);
  const absl::StatusOr<OpenedSession> attached = sessions().Open(Named("attached", 7));
  EXPECT_GT(attached->owner_epoch, made->owner_epoch);
  const absl::StatusOr<OpenedSession> again = sessions().Open(Named("attached", 7));
  EXPECT_EQ(again->owner_epoch, attached->owner_epoch);
  EXPECT_FALSE(again->is_new);
  EXPECT_EQ(sessions().Open(Named("attached", 8)).status().code(), StatusCode::kAborted);
  EXPECT_EQ(sessions().Open(Named("made"))->owner_epoch, made->owner_epoch) << "stale by now, and fenced";
  EXPECT_GT(sessions().Open(Named("another"))->owner_epoch, attached->owner_epoch);
}

TEST_F(SessionOwnersTest, AForkHasItsFirstOwnerEpoch) {
  const SessionPtr parent = OpenWith(Named());
  sessions().Open(Named()).IgnoreError();
  ForkSpec spec;
  spec.tenant = "t";
  absl::StatusOr<ForkedSessions> forked = absl::UnknownError("not answered");
  sessions().Fork(parent, std::move(spec), [&](absl::StatusOr<ForkedSessions> made) { forked = std::move(made); });
  const SessionPtr fork = *sessions().Find(forked->keys.at(0), "t");
  Commit(Send(fork, {.number = 1, .owner_epoch = forked->owner_epoch}), 1);
}

TEST_F(SessionOwnersTest, AttachingAsksWhetherTheSessionAgrees) {
  const SessionPtr session = OpenWith(Named());
  OpenSpec spec = Named();
  spec.agrees = [&](const Session& found) {
    EXPECT_EQ(&found, session.get());
    EXPECT_TRUE(sessions().Find(key_, "t").ok()) << "no lock is held";
    return absl::FailedPreconditionError("rows");
  };
  EXPECT_EQ(sessions().Open(spec).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(sessions().FindOpened(spec)->status().code(), StatusCode::kFailedPrecondition);
  spec.agrees = nullptr;
  EXPECT_EQ(sessions().Open(spec)->owner_epoch, Session::kFirstOwnerEpoch + 1) << "what is refused raises none";
}

TEST_F(SessionOwnersTest, MustExistNeverMakesASession) {
  OpenSpec spec = Named();
  spec.must_exist = true;
  const absl::Status none = sessions().Open(spec).status();
  EXPECT_EQ(none.code(), StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(none), "SESSION_UNKNOWN");
  EXPECT_EQ(sessions().live(), 0);
  const SessionPtr session = OpenWith(Named());
  EXPECT_EQ(sessions().Open(spec)->session, session);
  Commit(Send(session, {.number = 1, .closes = true}), 1, true);
  EXPECT_EQ(sessions().Open(spec).status().code(), StatusCode::kNotFound);
}

class LostSubject final : public SessionSubject {
 public:
  bool IsLost() const override { return true; }
};

TEST_F(SessionOwnersTest, MustExistTellsThatASessionIsLost) {
  OpenSpec spec = Named();
  spec.subject = std::make_shared<LostSubject>();
  OpenWith(spec);
  spec.must_exist = true;
  EXPECT_EQ(sessions().Open(spec).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(sessions().live(), 1);
}

TEST_F(SessionOwnersTest, AttachingAndRefusedOperationsAreUse) {
  OpenSpec spec = Named("r");
  spec.terms.idle_timeout = absl::Seconds(10);
  const SessionPtr session = OpenWith(spec);
  const auto age = [&](int seconds) {
    for (int k = 0; k < seconds; ++k) {
      clock_.Move(absl::Seconds(1));
      sessions().Sweep();
    }
  };
  age(9);
  sessions().Open(Named()).IgnoreError();
  age(9);
  EXPECT_EQ(Send(session, {.number = 7})->code(), StatusCode::kOutOfRange);
  age(9);
  session->NoteRefused(1, absl::ResourceExhaustedError("no room"));
  age(9);
  EXPECT_TRUE(session->view().live);
  age(3);
  EXPECT_FALSE(session->view().live);
}

// Request ids of attaches are bounded: one for each session.
TEST_F(SessionOwnersTest, RequestIdsOfAttachesGoWithTheirSession) {
  const SessionPtr session = OpenWith(Named());
  for (int k = 0; k < 10; ++k) {
    EXPECT_FALSE(sessions().Open(Named(std::to_string(k)))->is_new);
  }
  Commit(Send(session, {.number = 1, .closes = true}), 1, true);
  clock_.Move(absl::Minutes(2));
  sessions().Sweep();
  for (int k = 0; k < 10; ++k) {
    EXPECT_FALSE(sessions().FindOpened({.tenant = "t", .request = {std::to_string(k), {0, 0}}}).has_value()) << k;
  }
}

}  // namespace
}  // namespace rnnserve
