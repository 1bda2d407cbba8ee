// SPDX-License-Identifier: Apache-2.0
#include "tests/server/sessions/contract/storms/network_store.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/steady_now.h"

namespace rnnserve::storms {
namespace {

constexpr int64_t kAskBytes = 100;

// Deadlines are of the machine's clock, which hardly moves while a world runs: what is left of one, in virtual time.
absl::Duration LeftOf(absl::Time deadline) {
  return absl::Ceil(std::max(deadline - SteadyNow(), absl::ZeroDuration()), absl::Milliseconds(500));
}

}  // namespace

absl::StatusOr<std::string> PaddedCodec::Encode(const SessionRecord& record) {
  records_.push_back(record);
  std::string bytes = std::to_string(records_.size() - 1);
  bytes.resize(std::max(bytes.size(), bytes_), ' ');
  return bytes;
}

absl::StatusOr<SessionRecord> PaddedCodec::Decode(std::string_view bytes) { return At(bytes); }

const SessionRecord& PaddedCodec::At(std::string_view bytes) const {
  size_t place = 0;
  std::from_chars(bytes.data(), bytes.data() + bytes.size(), place);
  return records_.at(place);
}

void StoreNode::GoAway(absl::Duration within) {
  ++epoch_;
  away_until_ = std::max(away_until_, events_->Now() + within);
  busy_until_ = away_until_;
}

absl::Duration StoreNode::NextTurn() {
  busy_until_ = std::max(busy_until_, events_->Now()) + terms_.store_step;
  return busy_until_;
}

absl::StatusOr<SessionStore::Written> StoreNode::Write(const SessionStore::WriteRequest& request, uint64_t serial) {
  const auto found = records_.find(request.id.bytes);
  ++figures_->writes;
  if (found == records_.end()) {
    records_[request.id.bytes] = {request.fence, request.record, request.record, serial};
    return SessionStore::Written{true};
  }
  Stored& stored = found->second;
  const bool is_fenced =
      stored.fence.owner != request.fence.owner && (request.create || stored.fence.since >= request.fence.since);
  if (is_fenced && terms_.fault != Fault::kFenceIgnored) return absl::AbortedError("fenced");
  if (stored.fence.owner == request.fence.owner && serial < stored.serial) {
    return absl::UnavailableError("a later write came first");
  }
  if (terms_.fault == Fault::kWriteForgotten && events_->Draw(16) == 0) return SessionStore::Written{};
  if (terms_.fault == Fault::kCloseForgotten && codec_->At(request.record).state == nullptr) {
    return SessionStore::Written{};
  }
  const uint64_t had = codec_->At(stored.record).numbers.last_applied;
  const uint64_t has = codec_->At(request.record).numbers.last_applied;
  // An attach writes what is applied: not a number whose write had no answer, though the store has it.
  if (terms_.rounds == 0 && has < had)
    figures_->Wrong(absl::StrCat("a record went back from number ", had, " to ", has));
  stored = {is_fenced ? stored.fence : request.fence, request.record, std::move(stored.record), serial};
  return SessionStore::Written{};
}

absl::StatusOr<StoredRecord> StoreNode::Take(const SessionId& id, const StoreFence& fence) {
  const auto found = records_.find(id.bytes);
  if (found == records_.end()) return absl::NotFoundError("no record");
  Stored& stored = found->second;
  if (stored.fence.owner != fence.owner) {
    ++figures_->takes;
    const StoreFence later = {std::max(stored.fence.since + 1, fence.since), fence.owner};
    if (terms_.fault == Fault::kTakeKeepsFence) return StoredRecord{later, stored.record};
    stored.fence = later;
    stored.serial = 0;  // a new owner counts anew
  }
  return StoredRecord{stored.fence, terms_.fault == Fault::kOlderRecordTaken ? stored.before : stored.record};
}

absl::StatusOr<StoredRecord> StoreNode::Read(const SessionId& id) {
  const auto found = records_.find(id.bytes);
  if (found == records_.end()) return absl::NotFoundError("no record");
  return StoredRecord{found->second.fence, found->second.record};
}

template <typename Answer>
void StoreLine::Start(std::function<absl::StatusOr<Answer>(StoreNode&)> ask, int64_t bytes, absl::Time deadline,
                      absl::AnyInvocable<void(absl::StatusOr<Answer>)> done) {
  const auto told = std::make_shared<absl::AnyInvocable<void(absl::StatusOr<Answer>)>>(std::move(done));
  const auto request = std::make_shared<Request>();
  request->bytes = bytes;
  request->carry_out = [ask = std::move(ask), told](StoreNode& node) -> absl::AnyInvocable<void()> {
    return [told, answer = ask(node)]() mutable { (*told)(std::move(answer)); };
  };
  request->refuse = [told](absl::Status why) { (*told)(std::move(why)); };
  Queue(request, deadline);
}

void StoreLine::Write(WriteRequest request, WriteDone done) {
  const auto bytes = static_cast<int64_t>(request.record.size());
  const absl::Time deadline = request.deadline;
  const auto kept = std::make_shared<const WriteRequest>(std::move(request));
  const uint64_t serial = ++serial_;
  Start<Written>([kept, serial](StoreNode& node) { return node.Write(*kept, serial); }, bytes, deadline,
                 std::move(done));
}

void StoreLine::Take(const SessionId& id, const StoreFence& fence, absl::Time deadline, ReadDone done) {
  Start<StoredRecord>([id, fence](StoreNode& node) { return node.Take(id, fence); }, kAskBytes, deadline,
                      std::move(done));
}

void StoreLine::Read(const SessionId& id, absl::Time deadline, ReadDone done) {
  Start<StoredRecord>([id](StoreNode& node) { return node.Read(id); }, kAskBytes, deadline, std::move(done));
}

void StoreLine::Queue(const RequestPtr& request, absl::Time deadline) {
  request->place = unanswered_.insert(unanswered_.end(), request);
  if (is_cut_) return;
  Count(1, request->bytes);
  const bool is_full = bytes_ > terms_.most_bytes || static_cast<int64_t>(unanswered_.size()) > terms_.most_requests;
  if (is_full && terms_.fault != Fault::kQueueUnbounded) {
    ++figures_->full;
    if (Leave(request)) request->refuse(absl::ResourceExhaustedError("full"));
    return;
  }
  figures_->most_of_a_queue = std::max(figures_->most_of_a_queue, bytes_);
  events_->After(LeftOf(deadline), [this, request] {
    deliver_([this, request] {
      if (Leave(request)) request->refuse(absl::UnavailableError("no answer before the deadline"));
    });
  });
  Send(request);
}

void StoreLine::Send(const RequestPtr& request) {
  if (is_cut_ || request->is_answered) return;
  events_->After(Latency(), [this, request] { Arrive(request); });
}

void StoreLine::Arrive(const RequestPtr& request) {
  if (node_->is_away()) {  // sent again when it is back
    events_->After(node_->away_until() - events_->Now(), [this, request] { Send(request); });
    return;
  }
  const int epoch = node_->epoch();
  events_->After(node_->NextTurn() - events_->Now(), [this, request, epoch] {
    if (node_->epoch() != epoch) return Send(request);
    absl::AnyInvocable<void()> tell = request->carry_out(*node_);
    events_->After(Latency(), [this, request, epoch, tell = std::move(tell)]() mutable {
      if (node_->epoch() != epoch) return Send(request);  // the reply is lost: carried out once more
      deliver_([this, request, tell = std::move(tell)]() mutable {
        if (Leave(request)) tell();
      });
    });
  });
}

void StoreLine::Count(int64_t requests, int64_t bytes) {
  if (is_cut_) return;
  bytes_ += bytes;
  figures_->queued.Add(requests);
  figures_->queued_bytes.Add(bytes);
}

void StoreLine::Cut() {
  Count(-static_cast<int64_t>(unanswered_.size()), -bytes_);
  is_cut_ = true;
}

bool StoreLine::Leave(const RequestPtr& request) {
  if (std::exchange(request->is_answered, true)) return false;
  unanswered_.erase(request->place);
  Count(-1, -request->bytes);
  return true;
}

void StoreLine::AnswerAll() {
  Cut();
  while (!unanswered_.empty()) {
    const RequestPtr request = unanswered_.front();
    if (Leave(request)) request->refuse(absl::UnavailableError("away"));
  }
}

}  // namespace rnnserve::storms
