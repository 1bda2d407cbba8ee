// SPDX-License-Identifier: Apache-2.0
// sessions.md, sections 1 and 3: names, forks, checkpoints, the end, capacity.
#include <set>

#include "tests/server/sessions/contract/session_fixture.h"

namespace rnnserve {
namespace {

using absl::StatusCode;

class SessionLifeTest : public SessionFixture {
 protected:
  static ForkSpec Forks(int64_t count, std::vector<std::string> names = {}) {
    ForkSpec spec;
    spec.count = count;
    spec.names = std::move(names);
    return spec;
  }
  absl::StatusOr<ForkedSessions> Fork(const SessionPtr& session, ForkSpec spec) {
    spec.tenant = "t";
    absl::StatusOr<ForkedSessions> forked = absl::UnknownError("not answered");
    sessions().Fork(session, std::move(spec),
                    [&](absl::StatusOr<ForkedSessions> result) { forked = std::move(result); });
    return forked;
  }
  absl::Status FindError(const std::string& key, const std::string& tenant = "t") {
    return sessions().Find(key, tenant).status();
  }
  void Age(absl::Duration by) {  // sweeping all the while
    for (absl::Duration passed; passed < by; passed += options_.sweep_period) {
      clock_.Move(options_.sweep_period);
      sessions().Sweep();
    }
  }
};

TEST_F(SessionLifeTest, KeysOfOthersAreUnknownInTheSameWords) {
  Open();
  const absl::Status unknown = FindError("not a key");
  EXPECT_EQ(ReasonOf(unknown), "SESSION_UNKNOWN");
  EXPECT_EQ(FindError(key_, "another"), unknown);
  EXPECT_TRUE(sessions().Find(key_, "t").ok());
  std::string forged = key_;
  forged.back() = forged.back() == 'A' ? 'B' : 'A';
  EXPECT_EQ(FindError(forged), unknown);
}

TEST_F(SessionLifeTest, AKeyOfAnotherBootIsDataLoss) {
  Open();
  const std::string old = key_;
  sessions_.reset();
  EXPECT_EQ(FindError(old).code(), StatusCode::kDataLoss);
  EXPECT_EQ(ReasonOf(FindError(old, "another")), "SESSION_UNKNOWN");
}

// One letter of the part that names the run of the server.
TEST_F(SessionLifeTest, AMadeUpKeyIsUnknownAndCountsAsNothing) {
  auto counters = std::make_shared<SessionCounters>();
  counters->lost = std::make_shared<Counter>();
  options_.unknown_model = counters;
  Open();
  const std::string old = key_;
  sessions_.reset();
  for (size_t k = 3; k < 13; ++k) {
    std::string made_up = old;
    made_up[k] = made_up[k] == 'A' ? 'B' : 'A';
    EXPECT_EQ(ReasonOf(FindError(made_up)), "SESSION_UNKNOWN") << k;
  }
  EXPECT_EQ(counters->lost->value(), 0);
  EXPECT_EQ(FindError(old).code(), StatusCode::kDataLoss);
  EXPECT_EQ(counters->lost->value(), 1);
}

TEST_F(SessionLifeTest, NamesAreUniqueAmongLiveSessionsOfATenant) {
  OpenSpec spec = Spec();
  spec.name = "n";
  const SessionPtr first = OpenWith(spec);
  const std::string key = key_;
  EXPECT_EQ(sessions().Open(spec).status().code(), StatusCode::kAlreadyExists);
  spec.attach = true;
  EXPECT_EQ(sessions().Open(spec)->key, key);
  spec.attach = false;
  spec.tenant = "other";
  EXPECT_TRUE(sessions().Open(spec).ok());
  spec.tenant = "t";
  Commit(Send(first, {.number = 1, .closes = true}), 1, true);
  EXPECT_NE(OpenWith(spec), first) << "a closed session's name is free";
}

TEST_F(SessionLifeTest, OpenWithTheSameRequestIdIsTheSameSession) {
  OpenSpec spec = Spec();
  spec.request = {"r", {1, 1}};
  const SessionPtr first = OpenWith(spec);
  EXPECT_EQ(OpenWith(spec), first);
  EXPECT_EQ(sessions().live(), 1);
  spec.request.digest = {2, 2};
  EXPECT_EQ(sessions().Open(spec).status().code(), StatusCode::kAborted);
  EXPECT_EQ((*sessions().FindOpened({.tenant = "t", .request = {"r", {1, 1}}}))->session, first);
  EXPECT_FALSE(sessions().FindOpened({.tenant = "other", .request = {"r", {1, 1}}}).has_value());
}

TEST_F(SessionLifeTest, AForkStartsWithTheNumberAndAnEmptyWindow) {
  const SessionPtr parent = Open();
  Apply(parent, 1);
  Apply(parent, 2);
  Read(parent, {}, false, "here");
  const int alive = CountedState::alive;
  const absl::StatusOr<ForkedSessions> forked = Fork(parent, Forks(3));
  ASSERT_TRUE(forked.ok()) << forked.status();
  EXPECT_EQ(forked->number, 2u);
  ASSERT_EQ(std::set<std::string>(forked->keys.begin(), forked->keys.end()).size(), 3u);
  EXPECT_EQ(CountedState::alive, alive) << "nothing is copied";
  const SessionPtr fork = *sessions().Find(forked->keys[0], "t");
  EXPECT_EQ(Send(fork, {.number = 2, .content = 2})->code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(StateValue(fork), 2);
  const ToldPtr next = Send(fork, {.number = 3, .content = 3});
  EXPECT_EQ(next->lease->FindCheckpoint("here").status().code(), StatusCode::kNotFound);
  Commit(next, 33);
  EXPECT_EQ(StateValue(parent), 2);
  EXPECT_EQ(StateValue(fork), 33);
}

TEST_F(SessionLifeTest, AForkIsRepeatable) {
  const SessionPtr parent = Open();
  ForkSpec spec = Forks(2, {"a", "b"});
  spec.request = {"f", {5, 5}};
  const absl::StatusOr<ForkedSessions> first = Fork(parent, spec);
  Apply(parent, 1);
  const absl::StatusOr<ForkedSessions> again = Fork(parent, spec);
  EXPECT_EQ(again->keys, first->keys);
  EXPECT_EQ(again->number, 0u);
  EXPECT_EQ(sessions().live(), 3);
}

// A callback may do what it likes with sessions.
TEST_F(SessionLifeTest, AnswersOfForksComeWithNoLockHeld) {
  const SessionPtr parent = Open();
  int answers = 0;
  for (const Digest digest : {Digest{5, 5}, Digest{5, 5}, Digest{6, 6}}) {  // made, repeated, refused
    ForkSpec spec = Forks(1);
    spec.tenant = "t";
    spec.request = {"f", digest};
    sessions().Fork(parent, std::move(spec), [&](absl::StatusOr<ForkedSessions>) {
      EXPECT_TRUE(sessions().Find(key_, "t").ok());
      ++answers;
    });
  }
  EXPECT_EQ(answers, 3);
}

TEST_F(SessionLifeTest, ForksAreAllOrNone) {
  options_.tenant.sessions = 3;
  const SessionPtr parent = Open();
  const int64_t bytes = sessions().bytes();
  EXPECT_EQ(Fork(parent, Forks(3)).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Fork(parent, Forks(0)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Fork(parent, Forks(257)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Fork(parent, Forks(2, {"a"})).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Fork(parent, Forks(2, {"a", "a"})).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(sessions().live(), 1);
  EXPECT_EQ(sessions().bytes(), bytes);
}

TEST_F(SessionLifeTest, GlancesTakeEffectAfterTheirNumber) {
  const SessionPtr session = Open();
  const ToldPtr first = Send(session, {.number = 1, .content = 1});
  const ToldPtr second = Send(session, {.number = 2, .content = 2});
  const auto now = Read(session);
  const auto after_one = Read(session, 1);
  const auto after_two = Read(session, 2);
  const auto in_order = Read(session, {}, true);
  EXPECT_EQ((*now->snapshot)->numbers.last_applied, 0u);
  EXPECT_FALSE(after_one->snapshot.has_value());
  Commit(first, 1);
  EXPECT_EQ(ValueOf((*after_one->snapshot)->state), 1);
  EXPECT_FALSE(in_order->snapshot.has_value());
  Commit(second, 2);
  EXPECT_EQ(ValueOf((*after_two->snapshot)->state), 2);
  EXPECT_EQ((*in_order->snapshot)->numbers.last_applied, 2u);
  EXPECT_EQ(Read(session, 1)->snapshot->status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Read(session, 3)->snapshot->status().code(), StatusCode::kOutOfRange);
}

TEST_F(SessionLifeTest, GlancesAfterAFailedNumber) {
  const SessionPtr session = Open();
  const ToldPtr first = Send(session, {.number = 1, .content = 1});
  const ToldPtr second = Send(session, {.number = 2, .content = 2});
  const auto strict = Read(session, 2);
  const auto in_order = Read(session, {}, true);
  Commit(first, 1);
  Fail(second, absl::InternalError("engine"));
  EXPECT_EQ(strict->snapshot->status().code(), StatusCode::kAborted);
  EXPECT_EQ(ValueOf((*in_order->snapshot)->state), 1);
}

TEST_F(SessionLifeTest, CheckpointsHoldTheStateWithoutCopying) {
  const SessionPtr session = Open();
  Apply(session, 1);
  Read(session, {}, false, "one");
  Apply(session, 2);
  const ToldPtr rewind = Send(session, {.number = 3, .content = 3});
  const absl::StatusOr<Snapshot> checkpoint = rewind->lease->FindCheckpoint("one");
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(ValueOf(checkpoint->state), 1);
  EXPECT_EQ(checkpoint->numbers, (Numbers{1, 1}));
  EXPECT_EQ(rewind->lease->FindCheckpoint("two").status().code(), StatusCode::kNotFound);
  Lease lease = *std::move(rewind->lease);
  std::move(lease).Commit({checkpoint->state, checkpoint->numbers.position, std::make_shared<TextReply>(""), false});
  EXPECT_EQ(rewind->outcome().numbers, (Numbers{3, 1})) << "the position moves back, the number does not";
  EXPECT_EQ(StateValue(session), 1);
}

TEST_F(SessionLifeTest, CheckpointsAreChargedAndCounted) {
  const SessionPtr session = Open();
  const int64_t before = sessions().bytes();
  for (size_t k = 0; k < Session::kMaxCheckpoints; ++k)
    ASSERT_TRUE(Read(session, {}, false, std::to_string(k))->snapshot->ok());
  EXPECT_EQ(Read(session, {}, false, "more")->snapshot->status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Read(session, {}, false, "0")->snapshot->ok()) << "a name is used again";
  EXPECT_EQ(sessions().bytes() - before,
            static_cast<int64_t>(Session::kMaxCheckpoints) * (Session::kBytesPerCheckpoint + 100));
}

TEST_F(SessionLifeTest, CloseLeavesItsRepliesForAMinute) {
  const SessionPtr session = Open();
  Apply(session, 1);
  const int alive = CountedState::alive;
  Commit(Send(session, {.number = 2, .content = 2, .closes = true}), 2, true);
  EXPECT_LT(CountedState::alive, alive) << "the state goes at once";
  EXPECT_EQ(sessions().live(), 0);
  Age(absl::Seconds(59));
  const SessionPtr found = *sessions().Find(key_, "t");
  EXPECT_EQ(Send(found, {.number = 2, .content = 2})->text(), "2");
  EXPECT_EQ(Send(found, {.number = 1, .content = 1})->text(), "1");
  EXPECT_EQ(Send(found, {.number = 3})->reason(), "SESSION_ENDED");
  EXPECT_EQ(Send(found, {})->reason(), "SESSION_ENDED");
  EXPECT_EQ(ReasonOf(Read(found)->snapshot->status()), "SESSION_ENDED");
  Age(absl::Seconds(1));
  const absl::Status ended = FindError(key_);
  EXPECT_EQ(ReasonOf(ended), "SESSION_ENDED");
  EXPECT_EQ(EndCauseOf(ended), "closed");
  EXPECT_EQ(NumbersOf(ended)->last_applied, 2u);
  EXPECT_EQ(sessions().bytes(), 0);
}

TEST_F(SessionLifeTest, AClosedSessionIsChargedOnlyForTheRepliesThatStay) {
  const SessionPtr session = Open();
  Apply(session, 1);
  Commit(Send(session, {.number = 2, .content = 2, .closes = true}), 2, true);
  EXPECT_EQ(sessions().bytes(), Session::kBytesPerSession + 2 * (Window::kBytesPerReply + 1));
  Age(absl::Minutes(1));
  EXPECT_EQ(sessions().bytes(), 0);
}

TEST_F(SessionLifeTest, CloseEndsWhatIsQueuedBehindIt) {
  const SessionPtr session = Open();
  const ToldPtr close = Send(session, {.number = 1, .content = 1, .closes = true});
  const ToldPtr behind = Send(session, {.number = 2, .content = 2});
  Commit(close, 1, true);
  EXPECT_EQ(behind->reason(), "SESSION_ENDED");
}

TEST_F(SessionLifeTest, IdleSessionsExpireAndOthersDoNot) {
  OpenSpec spec = Spec();
  spec.terms.idle_timeout = absl::Seconds(10);
  const SessionPtr idle = OpenWith(spec);
  const std::string idle_key = key_;
  const SessionPtr used = OpenWith(spec);
  const std::string used_key = key_;
  Age(absl::Seconds(9));
  Apply(used, 1);
  Age(absl::Seconds(2));
  const absl::Status ended = FindError(idle_key);
  EXPECT_EQ(ReasonOf(ended), "SESSION_ENDED");
  EXPECT_EQ(EndCauseOf(ended), "expired");
  EXPECT_TRUE(sessions().Find(used_key, "t").ok());
  EXPECT_EQ(ReasonOf(FindError(idle_key, "another")), "SESSION_UNKNOWN");
  Age(absl::Seconds(12));
  EXPECT_EQ(ReasonOf(FindError(used_key)), "SESSION_ENDED");
  EXPECT_EQ(sessions().live(), 0);
  EXPECT_EQ(sessions().bytes(), 0);
}

TEST_F(SessionLifeTest, AcceptedWorkPinsASession) {
  OpenSpec spec = Spec();
  spec.terms.idle_timeout = absl::Seconds(3);
  const SessionPtr session = OpenWith(spec);
  const ToldPtr computing = Send(session, {.number = 1, .content = 1});
  Age(absl::Seconds(60));
  Commit(computing, 1);
  EXPECT_TRUE(computing->outcome().status.ok());
  Age(absl::Seconds(2));
  EXPECT_TRUE(sessions().Find(key_, "t").ok()) << "its idleness starts when the work is done";
  Age(absl::Seconds(6));
  EXPECT_EQ(ReasonOf(FindError(key_)), "SESSION_ENDED");
}

TEST_F(SessionLifeTest, AStoppedProcessDoesNotWakeToEndEverybody) {
  OpenSpec spec = Spec();
  spec.terms.idle_timeout = absl::Seconds(10);
  OpenWith(spec);
  Age(absl::Seconds(5));
  clock_.Move(absl::Hours(3));
  sessions().Sweep();
  sessions().Sweep();
  EXPECT_TRUE(sessions().Find(key_, "t").ok());
  Age(absl::Seconds(6));
  EXPECT_EQ(ReasonOf(FindError(key_)), "SESSION_ENDED");
}

TEST_F(SessionLifeTest, CapacityIsBytesAndNobodyIsDropped) {
  const int64_t each = Session::Charge(Spec().terms, *StateOf(0));
  options_.max_bytes = 3 * each + each / 2;
  for (int k = 0; k < 3; ++k) Open();
  const absl::Status full = sessions().Open(Spec()).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(sessions().live(), 3);
  const SessionPtr last = *sessions().Find(key_, "t");
  const ToldPtr grows = Send(last, {.number = 1});
  Commit(grows, 1, false, 100 + each);
  EXPECT_EQ(grows->code(), StatusCode::kResourceExhausted) << "a state that outgrows the server is not committed";
  EXPECT_EQ(StateValue(last), 0);
}

TEST_F(SessionLifeTest, TenantsHaveTheirOwnLimits) {
  options_.tenant = {.sessions = 2, .bytes = int64_t{1} << 40, .operations_per_second = 4};
  const SessionPtr session = Open();
  Open();
  const absl::Status third = sessions().Open(Spec()).status();
  EXPECT_EQ(third.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(QuotaSubjectOf(third), "sessions");
  OpenSpec other = Spec();
  other.tenant = "u";
  EXPECT_TRUE(sessions().Open(other).ok());
  const ToldPtr first = Apply(session, 1);
  const ToldPtr refused = Send(session, {.number = 2});
  EXPECT_EQ(QuotaSubjectOf(refused->outcome().status), "operations_per_second");
  clock_.Move(absl::Seconds(1));
  Apply(session, 2);
}

TEST_F(SessionLifeTest, ListsPageByPage) {
  std::set<std::string> opened, listed;
  for (int k = 0; k < 25; ++k) {
    Open();
    opened.insert(key_);
  }
  std::string token;
  int pages = 0;
  do {
    const absl::StatusOr<SessionPage> page = sessions().List("t", 10, token);
    ASSERT_TRUE(page.ok());
    for (const SessionPage::Item& item : page->items) EXPECT_TRUE(listed.insert(item.key).second);
    token = page->next_token;
    ++pages;
  } while (!token.empty());
  EXPECT_EQ(pages, 3);
  EXPECT_EQ(listed, opened);
  EXPECT_TRUE(sessions().List("another", 10, "")->items.empty());
  EXPECT_EQ(sessions().List("t", 10, "nonsense").status().code(), StatusCode::kInvalidArgument);
}

TEST_F(SessionLifeTest, DrainingRefusesNewNumbersAndKeepsTheRest) {
  const SessionPtr session = Open();
  Apply(session, 1);
  const ToldPtr accepted = Send(session, {.number = 2, .content = 2});
  sessions().StartDrain();
  EXPECT_FALSE(sessions().IsCarriedOver());
  EXPECT_EQ(sessions().Open(Spec()).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(Send(session, {.number = 3, .content = 3})->code(), StatusCode::kUnavailable);
  EXPECT_EQ(Send(session, {.number = 1, .content = 1})->text(), "1");
  Commit(accepted, 2);
  EXPECT_TRUE(accepted->outcome().status.ok());
  ReadRequest read;
  read.carries_over = true;
  read.done = [](absl::StatusOr<Snapshot> snapshot) { EXPECT_EQ(snapshot->numbers.last_applied, 2u); };
  sessions().Read(session, std::move(read));
  EXPECT_TRUE(sessions().IsCarriedOver());
  const ToldPtr close = Send(session, {.number = 3, .content = 3, .closes = true});
  Commit(close, 3, true);
  EXPECT_TRUE(close->outcome().status.ok());
}

TEST_F(SessionLifeTest, DrainingDoesNotWaitForSessionsThatAreLost) {
  struct Lost final : SessionSubject {
    bool IsLost() const override { return true; }
  };
  OpenSpec spec = Spec();
  spec.subject = std::make_shared<Lost>();
  const SessionPtr session = OpenWith(std::move(spec));
  const ToldPtr accepted = Send(session, {.number = 1, .content = 1});
  sessions().StartDrain();
  EXPECT_FALSE(sessions().IsCarriedOver()) << "what is in flight is still to be told";
  Fail(accepted, absl::DataLossError("the device is gone"));
  EXPECT_TRUE(sessions().IsCarriedOver());
}

}  // namespace
}  // namespace rnnserve
