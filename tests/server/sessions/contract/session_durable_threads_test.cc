// SPDX-License-Identifier: Apache-2.0
// Three servers, a store that answers on a thread of its own, and callers that send each number to any server: for the
// thread sanitizer, and for what a caller may rely on.
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/sessions/contract/durable_fixture.h"

namespace rnnserve {
namespace {

constexpr int kServers = 3;
constexpr int kCallers = 4;
constexpr uint64_t kNumbers = 200;

// Holds the records, one request at a time.
class ThreadedStore final : public SessionStore {
 public:
  ThreadedStore() : thread_([this] { Run(); }) {}
  ~ThreadedStore() override {
    Post({});
    thread_.join();
  }
  void Write(WriteRequest request, WriteDone done) override {
    Post([this, request = std::move(request), done = std::move(done)]() mutable {
      inner_.Write(std::move(request), std::move(done));
    });
  }
  void Take(const SessionId& id, const StoreFence& fence, absl::Time deadline, ReadDone done) override {
    Post([this, id, fence, deadline, done = std::move(done)]() mutable {
      inner_.Take(id, fence, deadline, std::move(done));
    });
  }
  void Read(const SessionId& id, absl::Time deadline, ReadDone done) override {
    Post([this, id, deadline, done = std::move(done)]() mutable { inner_.Read(id, deadline, std::move(done)); });
  }
  bool IsReachable() const override { return true; }

 private:
  using Task = absl::AnyInvocable<void()>;

  void Post(Task task) {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    wake_.notify_one();
  }
  void Run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return !tasks_.empty(); });
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (!task) return;
      task();
    }
  }

  FakeStore inner_;  // of the thread
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  std::thread thread_;  // last: it uses everything above
};

// As FakeCodec, for many threads.
class SharedCodec final : public RecordCodec {
 public:
  absl::StatusOr<std::string> Encode(const SessionRecord& record) override {
    const std::lock_guard lock(mutex_);
    return inner_.Encode(record);
  }
  absl::StatusOr<SessionRecord> Decode(std::string_view bytes) override {
    const std::lock_guard lock(mutex_);
    return inner_.Decode(bytes);
  }

 private:
  std::mutex mutex_;
  FakeCodec inner_;
};

class SessionDurableThreadsTest : public ::testing::Test {
 protected:
  SessionDurableThreadsTest() {
    MemorySessions::Options options;
    options.keys.secrets = {std::string(32, 's')};
    for (int k = 0; k < kServers; ++k) {
      servers_.push_back(std::make_unique<MemorySessions>(options, &clock_));
      servers_.back()->UseRecords(&records_);
    }
  }

  std::string Open() {
    OpenSpec spec;
    spec.tenant = "t";
    spec.subject = std::make_shared<SessionSubject>();
    spec.state = StateOf("");
    spec.terms.durability = Durability::kSync;
    const OpenedSession opened = servers_[0]->Open(std::move(spec)).value();
    std::promise<absl::Status> written;
    opened.session->Persist([&](absl::Status status) { written.set_value(std::move(status)); });
    EXPECT_EQ(written.get_future().get(), absl::OkStatus());
    return opened.key;
  }

  // What the state has seen, which is what a caller relies on: "1,2,3,".
  struct Log final : State {
    explicit Log(std::string said) : text(std::move(said)) {}
    const std::string text;
  };
  static SessionStatePtr StateOf(std::string text) {
    auto state = std::make_shared<SessionState>();
    state->handles.push_back(std::make_shared<Log>(std::move(text)));
    state->bytes = 100;
    return state;
  }
  static std::string LogOf(const SessionState& state) { return static_cast<const Log&>(*state.handles.at(0)).text; }

  static absl::StatusOr<SessionPtr> Find(MemorySessions& server, const std::string& key) {
    absl::StatusOr<SessionPtr> found = server.Find(key, "t");
    if (!IsElsewhere(found.status())) return found;
    std::promise<absl::StatusOr<SessionPtr>> fetched;
    server.Fetch(key, "t", [&](absl::StatusOr<SessionPtr> session) { fetched.set_value(std::move(session)); });
    return fetched.get_future().get();
  }

  static Outcome Send(MemorySessions& server, const SessionPtr& session, uint64_t number) {
    std::promise<Outcome> answer;
    Claim claim;
    claim.number = number;
    claim.digest = {number, 0};
    claim.granted = [number](Lease lease) {
      Change change;
      change.state = StateOf(LogOf(*lease.state()) + std::to_string(number) + ",");
      change.position = lease.numbers().position + 1;
      change.reply = std::make_shared<TextReply>("");
      std::move(lease).Commit(std::move(change));
    };
    claim.done = [&](Outcome outcome) { answer.set_value(std::move(outcome)); };
    server.Acquire(session, std::move(claim));
    return answer.get_future().get();
  }

  // Each number to a server that is drawn, until one has answered it; twice, now and then.
  void Call(const std::string& key, unsigned seed) {
    std::mt19937 dice(seed);
    std::string expected;
    for (uint64_t number = 1; number <= kNumbers; ++number) {
      expected += std::to_string(number) + ",";
      int wanted = dice() % 4 == 0 ? 2 : 1;
      for (int attempt = 0; wanted > 0 && attempt < 1000; ++attempt) {
        MemorySessions& server = *servers_[dice() % kServers];
        const absl::StatusOr<SessionPtr> session = Find(server, key);
        if (session.ok() && Send(server, *session, number).status.ok()) --wanted;
      }
      ASSERT_EQ(wanted, 0) << number << " was never answered";
    }
    std::string log;
    for (int attempt = 0; log.empty() && attempt < 1000; ++attempt) log = ReadLog(key);
    EXPECT_EQ(log, expected);
  }

  // Empty: another server has the session, or nothing has been applied.
  std::string ReadLog(const std::string& key) {
    const absl::StatusOr<SessionPtr> session = Find(*servers_[0], key);
    if (!session.ok()) return "";
    std::promise<std::string> log;
    ReadRequest read;
    read.done = [&](const absl::StatusOr<Snapshot>& snapshot) {
      log.set_value(snapshot.ok() ? LogOf(*snapshot->state) : "");
    };
    servers_[0]->Read(*session, std::move(read));
    return log.get_future().get();
  }

  SteadyClock clock_;
  SharedCodec codec_;
  std::vector<std::unique_ptr<MemorySessions>> servers_;
  ThreadedStore store_;  // its thread calls the servers
  SessionRecords records_{&store_, &codec_};
};

TEST_F(SessionDurableThreadsTest, NothingIsLostOrDoubledWhicheverServerIsAsked) {
  std::vector<std::string> keys;
  for (int k = 0; k < kCallers; ++k) keys.push_back(Open());
  std::vector<std::thread> callers;
  for (int k = 0; k < kCallers; ++k) {
    callers.emplace_back([&, k] { Call(keys[static_cast<size_t>(k)], static_cast<unsigned>(k)); });
  }
  std::thread sweeper([&] {
    for (int k = 0; k < 50; ++k) {
      for (const auto& server : servers_) server->Sweep();
      std::this_thread::yield();
    }
  });
  for (std::thread& caller : callers) caller.join();
  sweeper.join();
}

}  // namespace
}  // namespace rnnserve
