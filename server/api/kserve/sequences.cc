// SPDX-License-Identifier: Apache-2.0
#include "server/api/kserve/sequences.h"

#include <algorithm>
#include <optional>
#include <span>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/steady_now.h"
#include "engine/op/stack.h"

namespace rnnserve::kserve {
namespace {

// Requests of a sequence whose ids are remembered, and whose replies its session keeps.
constexpr int kWindow = 16;
// Sequences that are over are remembered, with the reply to the request that ended them, within both bounds.
constexpr size_t kMaxEnded = 4096;
constexpr int64_t kMaxEndedBytes = 16 << 20;

absl::Status SequenceError(std::string_view reason, std::string_view id, std::string_view model,
                           std::string_view what) {
  const auto view = [](std::string_view text) { return absl::string_view(text.data(), text.size()); };
  return WithReason(
      absl::InvalidArgumentError(absl::StrCat("inference request for sequence ", view(id), " to model '", view(model),
                                              "' must specify the START flag on the first request of "
                                              "the sequence: ",
                                              view(what))),
      reason);
}

// Rows of the request's steps; 1 where its shape is wrong, which the chunk itself will tell.
int64_t RowsOf(const StackSpec& stack, std::span<const NamedTensor> inputs) {
  const std::string steps = DataInputName(stack);
  for (const TensorSignature& signature : ChunkInputs(stack)) {
    if (signature.name != steps) continue;
    const auto axis = std::ranges::find(signature.shape, kDimN) - signature.shape.begin();
    for (const NamedTensor& input : inputs) {
      if (!IsDataInput(stack, input.name) || static_cast<size_t>(axis) >= input.tensor.shape.size()) continue;
      return std::max<int64_t>(input.tensor.shape[static_cast<size_t>(axis)], 1);
    }
  }
  return 1;
}

}  // namespace

struct Sequences::Sequence {
  Sequence(Name of_name, std::string of_key, int64_t of_version)
      : name(std::move(of_name)), key(std::move(of_key)), version(of_version) {}

  int64_t bytes() const { return end == nullptr ? 0 : end->bytes(); }
  std::optional<uint64_t> NumberOf(const std::string& id) const {
    const auto found = std::ranges::find(ids.rbegin(), ids.rend(), id, &std::pair<std::string, uint64_t>::first);
    if (id.empty() || found == ids.rend()) return std::nullopt;
    return found->second;
  }

  // Whether nothing has been applied since the request of this id, which started it.
  bool IsJustStarted(const std::string& id) {
    const MutexLock lock(mutex);
    return !busy && !ended.load() && applied == 1 && NumberOf(id) == 1;
  }

  const std::string& tenant() const { return std::get<0>(name); }

  const Name name;
  const std::string key;
  const int64_t version;

  Mutex mutex;
  bool busy ABSL_GUARDED_BY(mutex) = false;    // an operation is on its way
  bool closed ABSL_GUARDED_BY(mutex) = false;  // its session
  std::deque<std::shared_ptr<Work>> waiting ABSL_GUARDED_BY(mutex);

  std::optional<std::list<SequencePtr>::iterator> place;  // in live_; guarded by Sequences::mutex_

  // Of the one operation on its way.
  uint64_t applied = 0;
  std::deque<std::pair<std::string, uint64_t>> ids;
  std::atomic<bool> ended = false;
  std::string end_id;
  std::shared_ptr<const OperationResult> end;
};

void Sequences::Run(InferRequest request, const LoadedModel& model, SequenceCaller caller, Done done) {
  auto work = std::make_shared<Work>(Work{std::move(request), std::move(caller), model.name, std::move(done)});
  const absl::StatusOr<SequencePtr> sequence = Find(*work, model);
  if (!sequence.ok()) return work->done(sequence.status());
  {
    const MutexLock lock((*sequence)->mutex);
    (*sequence)->waiting.push_back(std::move(work));
    if (std::exchange((*sequence)->busy, true)) return;
  }
  Pump(*sequence);
}

Sequences::Name Sequences::NameOf(const Work& work) {
  return {work.caller.tenant, work.model, work.request.sequence->id};
}

absl::StatusOr<Sequences::SequencePtr> Sequences::Find(const Work& work, const LoadedModel& model) {
  const SequenceStep& step = *work.request.sequence;
  SequencePtr known;
  {
    const MutexLock lock(mutex_);
    if (const auto found = by_name_.find(NameOf(work)); found != by_name_.end()) known = found->second;
  }
  if (step.start) {
    // Sent again, unless the sequence has gone on since.
    const bool is_repeated =
        known != nullptr && !work.caller.request_id.empty() && known->IsJustStarted(work.caller.request_id);
    if (is_repeated) return known;
    return Start(work, model, std::move(known));
  }
  if (known != nullptr) return known;
  return SequenceError("SEQUENCE_UNKNOWN", step.id, model.name, "no such sequence has been started");
}

absl::StatusOr<OpenReply> Sequences::Open(const Work& work, const LoadedModel& model) {
  OpenCall open;
  open.tenant = work.caller.tenant;
  open.target = ModelName{model.name, model.version};
  open.rows = RowsOf(model.model->stack(), work.request.call.inputs);
  open.window_operations = kWindow;
  open.stays_on_drain = true;
  absl::StatusOr<OpenReply> opened = absl::InternalError("the session was not opened");
  core_->Open(std::move(open), [&](absl::StatusOr<OpenReply> reply) { opened = std::move(reply); });
  return opened;
}

absl::StatusOr<Sequences::SequencePtr> Sequences::Start(const Work& work, const LoadedModel& model,
                                                        SequencePtr former) {
  absl::StatusOr<OpenReply> opened = Open(work, model);
  if (absl::IsResourceExhausted(opened.status()) && former != nullptr) {
    // Perhaps the former one takes the room.
    Retire(std::exchange(former, nullptr));
    opened = Open(work, model);
  }
  if (!opened.ok()) return opened.status();
  auto sequence = std::make_shared<Sequence>(NameOf(work), std::move(opened->key), model.version);
  {
    const MutexLock lock(mutex_);
    by_name_[sequence->name] = sequence;
    sequence->place = live_.insert(live_.end(), sequence);
    ForgetOld();
  }
  if (former != nullptr) Retire(former);
  return sequence;
}

void Sequences::Pump(const SequencePtr& sequence) {
  for (;;) {
    std::shared_ptr<Work> work;
    {
      const MutexLock lock(sequence->mutex);
      if (sequence->waiting.empty()) {
        sequence->busy = false;
        if (!sequence->ended.load()) return;
        break;
      }
      work = std::move(sequence->waiting.front());
      sequence->waiting.pop_front();
    }
    // The second to finish, the operation or this function, goes on: an operation that ends at once deepens no stack.
    const auto came_first = std::make_shared<std::atomic_flag>();
    Apply(sequence, std::move(work), /*as_new=*/false, [this, sequence, came_first] {
      if (came_first->test_and_set(std::memory_order_acq_rel)) Pump(sequence);
    });
    if (!came_first->test_and_set(std::memory_order_acq_rel)) return;
  }
  Close(sequence);
}

void Sequences::Retire(const SequencePtr& sequence) {
  sequence->ended.store(true);
  {
    const MutexLock lock(sequence->mutex);
    if (std::exchange(sequence->busy, true)) return;
  }
  Pump(sequence);
}

void Sequences::Apply(const SequencePtr& sequence, std::shared_ptr<Work> work, bool as_new,
                      absl::AnyInvocable<void()> over) {
  const SequenceCaller& caller = work->caller;
  if (sequence->ended.load()) {
    if (sequence->end != nullptr && work->request.sequence->end && caller.request_id == sequence->end_id) {
      work->done(SequenceReply{sequence->end, sequence->version, true, nullptr, {}});
    } else {
      work->done(SequenceError("SEQUENCE_ENDED", work->request.sequence->id, work->model, "this one has ended"));
    }
    return over();
  }
  if (caller.cancelled != nullptr && caller.cancelled->load(std::memory_order_relaxed)) {
    work->done(absl::CancelledError("the caller cancelled the request"));
    return over();
  }
  OperationCall call;
  call.tenant = caller.tenant;
  call.session = sequence->key;
  const std::optional<uint64_t> before = as_new ? std::nullopt : sequence->NumberOf(caller.request_id);
  const uint64_t number = before.value_or(sequence->applied + 1);
  call.number = number;
  ChunkOp chunk;
  chunk.inputs = work->request.call.inputs;
  if (!work->request.call.outputs.empty()) chunk.outputs = work->request.call.outputs;
  call.kind = std::move(chunk);
  call.priority = work->request.call.priority;
  if (caller.deadline != absl::InfiniteFuture()) {
    call.timeout = std::max(caller.deadline - SteadyNow(), absl::Microseconds(1));
  }
  call.caller_id = caller.caller_id;
  core_->Apply(std::move(call), [this, sequence, work, number, is_again = before.has_value(),
                                 over = std::move(over)](ApplyReply answer) mutable {
    // A caller that gives all its requests one id means new ones.
    if (is_again && ReasonOf(answer.status) == "NUMBER_REUSED") {
      return Apply(sequence, std::move(work), /*as_new=*/true, std::move(over));
    }
    Applied(sequence, *work, number, std::move(answer));
    over();
  });
}

void Sequences::Applied(const SequencePtr& sequence, Work& work, uint64_t number, ApplyReply answer) {
  if (!answer.status.ok()) {
    return work.done(SequenceStatus(std::move(answer.status), work));
  }
  if (!answer.repeated) {
    sequence->applied = number;
    sequence->ids.emplace_back(work.caller.request_id, number);
    if (sequence->ids.size() > kWindow) sequence->ids.pop_front();
  }
  SequenceReply reply{answer.result, sequence->version, answer.repeated, answer.calls,
                      std::exchange(answer.memory, std::nullopt)};
  if (work.request.sequence->end && !sequence->ended.load()) {
    {
      const MutexLock lock(mutex_);
      sequence->end_id = work.caller.request_id;
      if (!sequence->end_id.empty()) sequence->end = answer.result;
      sequence->ended.store(true);
      if (sequence->place) MoveToEnded(*sequence->place);
    }
    Close(sequence);
  }
  work.done(std::move(reply));
}

absl::Status Sequences::SequenceStatus(absl::Status status, const Work& work) {
  const std::optional<std::string> reason = ReasonOf(status);
  const std::string& id = work.request.sequence->id;
  if (reason == "SESSION_ENDED" || reason == "SESSION_UNKNOWN") {
    return SequenceError("SEQUENCE_EXPIRED", id, work.model, "this one was idle for too long, and its state is gone");
  }
  if (reason == "SESSION_LOST") {
    return SequenceError("SEQUENCE_LOST", id, work.model,
                         "the state of this one is lost, as its engine is out of service");
  }
  return status;
}

void Sequences::Close(const SequencePtr& sequence) {
  {
    const MutexLock lock(sequence->mutex);
    if (std::exchange(sequence->closed, true)) return;
  }
  OperationCall call;
  call.tenant = sequence->tenant();
  call.session = sequence->key;
  call.kind = CloseOp{};
  core_->Apply(std::move(call), [](const ApplyReply&) {});
}

void Sequences::MoveToEnded(std::list<SequencePtr>::iterator place) {
  const SequencePtr sequence = *place;
  live_.erase(place);
  sequence->place.reset();
  ended_.push_back(sequence);
  ended_bytes_ += sequence->bytes();
  while (ended_.size() > kMaxEnded || ended_bytes_ > kMaxEndedBytes) {
    const SequencePtr oldest = std::move(ended_.front());
    ended_.pop_front();
    ended_bytes_ -= oldest->bytes();
    const auto found = by_name_.find(oldest->name);
    if (found != by_name_.end() && found->second == oldest) by_name_.erase(found);
  }
}

// Each start brings one sequence and looks at two, so those that have expired do not pile up.
void Sequences::ForgetOld() {
  for (int looks = 0; looks < 2 && !live_.empty(); ++looks) {
    const SequencePtr& oldest = live_.front();
    if (!core_->NumbersOf(oldest->key, oldest->tenant())) {
      MoveToEnded(live_.begin());
    } else {
      live_.splice(live_.end(), live_, live_.begin());
    }
  }
}

}  // namespace rnnserve::kserve
