// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/sessions/session_sender.h"

#include <deque>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "client/rnnctl/bench/check.h"
#include "client/rnnctl/bench/event_queue.h"
#include "client/rnnctl/bench/sessions/link.h"
#include "client/rnnctl/bench/sessions/messages.h"

namespace rnnserve::rnnctl::bench {
namespace {

constexpr size_t kOpening = 64;              // sessions being opened or closed at once, beforehand
constexpr size_t kCheckedNumbers = 1 << 16;  // what --check remembers

class StreamSender final : public SessionSender {
 public:
  StreamSender(const SessionSenderOptions& options, const std::vector<std::shared_ptr<grpc::Channel>>& channels,
               const Requests& requests)
      : options_(options),
        requests_(requests),
        close_(CloseBody()),
        hooks_{[this](Link& link, std::string_view message) { Received(link, message); },
               [this](Link& link, const grpc::Status& status) { Broke(link, status); }},
        sessions_(options.slots),
        echoing_(static_cast<size_t>(options.streams)) {
    if (options.check) check_.emplace(*options.check);
    for (const auto& channel : channels) stubs_.push_back(std::make_unique<grpc::GenericStub>(channel));
    for (size_t k = 0; k < echoing_.size(); ++k) {
      links_.push_back(std::make_unique<Link>(stubs_[k % stubs_.size()].get(), events_.queue(), &options_.client,
                                              options.operations, &hooks_));
    }
  }

  ~StreamSender() override {
    leaving_ = true;
    for (const auto& link : links_) link->Cancel();
  }

  absl::Status StartTimer() { return events_.StartTimer(); }

  Time Now() override { return SteadyNow(); }
  std::chrono::nanoseconds CpuTime() override { return ProcessCpuTime(); }

  void Send(size_t slot, size_t, Time) override {
    Session& session = sessions_[slot];
    session.wants_chunk = true;
    ++in_flight_;
    if (options_.echo) return SendEcho(slot);
    if (options_.life > 0 && session.applied >= options_.life && session.is_open()) SendClose(slot);
    session.is_open() ? SendChunk(slot) : SendOpen(slot);
  }

  bool Wait(Time until, bool precise, Answer& answer) override {
    if (answers_.empty()) Turn(until, precise);
    if (answers_.empty()) return false;
    answer = std::move(answers_.front());
    answers_.pop_front();
    return true;
  }

  void Sleep(Time until) override { SleepUntil(until); }

  absl::Status Open(size_t count, const std::function<bool()>& interrupted) override {
    if (options_.echo) return absl::OkStatus();
    const auto open = [this](size_t slot) {
      if (!sessions_[slot].is_open()) SendOpen(slot);
    };
    return ForAll(count, open, interrupted);
  }

  absl::Status CloseAll(const std::function<bool()>& interrupted) override {
    const auto close = [this](size_t slot) {
      if (sessions_[slot].is_open()) SendClose(slot);
    };
    return ForAll(sessions_.size(), close, interrupted);
  }

  Histogram TakeOpened() override { return std::exchange(opened_, {}); }

 private:
  struct Session {
    std::string key;
    int64_t applied = 0;    // chunks
    Time opening{0};        // since when
    uint8_t preparing = 0;  // its opens and closes under way
    bool wants_chunk = false;
    bool is_open() const { return !key.empty(); }
  };

  size_t StreamOf(size_t slot) const { return slot % links_.size(); }
  std::string& MessageFor(size_t slot) { return links_[StreamOf(slot)]->Message(); }

  void SendChunk(size_t slot) {
    const Session& session = sessions_[slot];
    const std::string& body = requests_.bodies[static_cast<size_t>(session.applied) % requests_.bodies.size()];
    AppendOperation({OperationKind::kChunk, slot}, session.key, static_cast<uint64_t>(session.applied) + 1, body,
                    MessageFor(slot));
  }

  // As many bytes as a chunk has; the bytes come back as they are.
  void SendEcho(size_t slot) {
    static const std::string key(56, 'k');
    AppendOperation({OperationKind::kChunk, slot}, key, 1, requests_.bodies[0], MessageFor(slot));
    echoing_[StreamOf(slot)].push_back(slot);
  }

  void SendOpen(size_t slot) {
    sessions_[slot].opening = SteadyNow();
    Prepare(slot, 1);
    AppendOperation({OperationKind::kOpen, slot}, {}, 0, requests_.open, MessageFor(slot));
  }

  void SendClose(size_t slot) {
    Session& session = sessions_[slot];
    Prepare(slot, 1);
    AppendOperation({OperationKind::kClose, slot}, session.key, static_cast<uint64_t>(session.applied) + 1, close_,
                    MessageFor(slot));
    session.key.clear();
    session.applied = 0;
  }

  void Prepare(size_t slot, int change) {
    sessions_[slot].preparing = static_cast<uint8_t>(sessions_[slot].preparing + change);
    preparing_ = static_cast<size_t>(static_cast<int64_t>(preparing_) + change);
  }

  // Some at a time, until all of them are answered.
  absl::Status ForAll(size_t count, const std::function<void(size_t slot)>& send,
                      const std::function<bool()>& interrupted) {
    failure_ = absl::OkStatus();
    for (size_t slot = 0; (slot < count || preparing_ > 0) && failure_.ok();) {
      for (; slot < count && preparing_ < kOpening * links_.size(); ++slot) send(slot);
      Turn(SteadyNow() + kLookUp, false);
      if (interrupted && interrupted()) return absl::OkStatus();
    }
    return failure_;
  }

  void Turn(Time until, bool precise) {
    for (const auto& link : links_) link->Flush();
    if (const std::optional<EventQueue::Event> event = events_.Wait(until, precise)) {
      return Link::Proceed(event->tag, event->ok);
    }
    if (options_.client.timeout.count() == 0 || in_flight_ + preparing_ == 0) return;
    for (const auto& link : links_) {
      if (SteadyNow() - link->last_heard() > options_.client.timeout) link->Cancel();
    }
  }

  void Received(Link& link, std::string_view message) {
    if (options_.echo) return Echoed(link, message);
    if (!ReadReplies(message, [this](const OperationRead& read) { Take(read); })) {
      protocol_error_ = true;
      link.Cancel();
    }
  }

  void Echoed(Link& link, std::string_view message) {
    std::deque<size_t>& waiting = echoing_[IndexOf(link)];
    const int64_t operations = link.TakeEchoed();
    for (int64_t k = 0; k < operations && !waiting.empty(); ++k) {
      Answer answer;
      answer.slot = waiting.front();
      waiting.pop_front();
      answer.sent_bytes = answer.received_bytes = static_cast<int64_t>(message.size()) / operations;
      answer.steps = requests_.steps[0];
      Finish(std::move(answer));
    }
  }

  void Take(const OperationRead& read) {
    if (read.id.slot >= sessions_.size()) return;
    if (read.id.kind == OperationKind::kChunk) return TakeChunk(read);
    Session& session = sessions_[read.id.slot];
    if (session.preparing == 0) return;  // of before its stream broke
    Prepare(read.id.slot, -1);
    if (read.id.kind == OperationKind::kClose) return Note(read.answer);
    if (read.answer.code != 0) {
      Note(read.answer);
      if (session.wants_chunk) Finish(read.answer);
      return;
    }
    opened_.Add(SteadyNow() - session.opening);
    session.key = read.session;
    if (session.wants_chunk) SendChunk(read.id.slot);
  }

  void TakeChunk(const OperationRead& read) {
    Session& session = sessions_[read.id.slot];
    Answer answer = read.answer;
    const size_t body = static_cast<size_t>(session.applied) % requests_.bodies.size();
    answer.steps = requests_.steps[body];
    answer.sent_bytes = static_cast<int64_t>(requests_.bodies[body].size());
    if (answer.code == 0) {
      if (check_ && session.applied < static_cast<int64_t>(kCheckedNumbers)) {
        answer.match = check_->CheckOperation(static_cast<size_t>(session.applied), std::string(read.reply));
      }
      ++session.applied;
    } else if (IsGone(answer.code)) {
      session.key.clear();
      session.applied = 0;
    }
    Finish(std::move(answer));
  }

  // The session is no more; the next chunk opens another.
  static bool IsGone(int code) { return code == grpc::StatusCode::NOT_FOUND || code == grpc::StatusCode::DATA_LOSS; }

  void Note(const Answer& answer) {
    if (answer.code == 0 || !failure_.ok()) return;
    failure_ = absl::Status(static_cast<absl::StatusCode>(answer.code), answer.message);
  }

  void Finish(Answer answer) {
    sessions_[answer.slot].wants_chunk = false;
    --in_flight_;
    answers_.push_back(std::move(answer));
  }

  // What its sessions were waiting for is answered with the stream's end. They are given up: whether their last chunk
  // was applied is not known here.
  void Broke(Link& link, const grpc::Status& status) {
    if (leaving_) return;
    const size_t stream = IndexOf(link);
    echoing_[stream].clear();
    Answer answer;
    answer.code = protocol_error_ ? grpc::StatusCode::INTERNAL : status.error_code();
    answer.message =
        protocol_error_ ? "a reply of the stream is no rnnserve.v1.StreamResponse" : status.error_message();
    protocol_error_ = false;
    Note(answer);
    for (size_t slot = stream; slot < sessions_.size(); slot += links_.size()) {
      Prepare(slot, -sessions_[slot].preparing);
      sessions_[slot].key.clear();
      sessions_[slot].applied = 0;
      if (!sessions_[slot].wants_chunk) continue;
      answer.slot = slot;
      Finish(answer);
    }
  }

  size_t IndexOf(const Link& link) const {
    size_t k = 0;
    while (links_[k].get() != &link) ++k;
    return k;
  }

  const SessionSenderOptions options_;
  const Requests& requests_;
  const std::string close_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;  // by server
  const Link::Hooks hooks_;
  std::optional<AnswerCheck> check_;
  std::vector<Session> sessions_;            // by slot
  std::vector<std::deque<size_t>> echoing_;  // by stream, the slots whose echo is to come
  std::deque<Answer> answers_;
  size_t in_flight_ = 0;  // chunks
  size_t preparing_ = 0;  // opens and closes, of all sessions
  absl::Status failure_;  // of these, the first
  Histogram opened_;
  bool protocol_error_ = false;
  bool leaving_ = false;
  std::vector<std::unique_ptr<Link>> links_;
  EventQueue events_;  // last: its end takes the events of links_
};

}  // namespace

absl::StatusOr<std::unique_ptr<SessionSender>> MakeSessionSender(const SessionSenderOptions& options,
                                                                 const Requests& requests) {
  const auto channels = ConnectedChannels(options.addresses, options.client);
  if (!channels.ok()) return channels.status();
  auto caller = std::make_unique<StreamSender>(options, *channels, requests);
  RETURN_IF_ERROR(caller->StartTimer());
  return std::unique_ptr<SessionSender>(std::move(caller));
}

}  // namespace rnnserve::rnnctl::bench
