// SPDX-License-Identifier: Apache-2.0
#include "server/store/redis_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/view.h"
#include "server/files/plain_file.h"
#include "server/telemetry/log.h"

namespace rnnserve {
namespace {

constexpr size_t kMostFileBytes = size_t{1} << 20;
// Where Redis asks to try again: 0.5 to 1 of this.
constexpr absl::Duration kRetryPause = absl::Milliseconds(50);
// A request that waited this long in vain tells of the store; a shorter deadline tells of its caller.
constexpr absl::Duration kSilence = absl::Milliseconds(250);

absl::Status Full(std::string_view what) {
  return absl::ResourceExhaustedError(absl::StrCat("the session store is full: ", View(what)));
}

absl::Status FilesAreReadable(const StoreAddress& address) {
  for (const std::string* const path :
       {&address.password_file, &address.ca_file, &address.cert_file, &address.key_file}) {
    if (path->empty()) continue;
    if (const auto file = ReadPlainFile(*path, kMostFileBytes); !file.ok()) return file.status();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RedisStore>> RedisStore::Create(Options options) {
  if (absl::Status readable = FilesAreReadable(options.address); !readable.ok()) return readable;
  if (options.address.tls) {
    const auto tls = TlsSession::Make(options.address, options.address.hosts.front().host);
    if (!tls.ok()) return tls.status();
  }
  auto loop = std::make_shared<EventLoop>(options.now);
  if (!loop->ok()) return absl::FailedPreconditionError("the session store has no file descriptors left");
  return std::unique_ptr<RedisStore>(new RedisStore(std::move(options), std::move(loop)));
}

RedisStore::RedisStore(Options options, std::shared_ptr<EventLoop> loop)
    : options_(std::move(options)), loop_(std::move(loop)) {
  loop_->Post([this] {
    if (options_.address.kind == StoreAddress::Kind::kSingle) {
      return UseMap(SlotMap::OfOne(options_.address.hosts.front()));
    }
    discovery_ = std::make_unique<Discovery>(loop_, ConnectionOptionsOf(true),
                                             [this](absl::StatusOr<SlotMap> found) { OnFound(std::move(found)); });
    discovery_->Refresh();
  });
  thread_ = std::thread([this] { loop_->Run(); });
}

RedisStore::~RedisStore() {
  loop_->Stop();
  thread_.join();
  std::vector<RequestPtr> left(live_.begin(), live_.end());
  {
    const MutexLock lock(mutex_);
    stopped_ = true;
    left.insert(left.end(), incoming_.begin(), incoming_.end());
  }
  for (const RequestPtr& request : left) Finish(*request, Away("the server shuts down"));
}

void RedisStore::Write(WriteRequest request, WriteDone done) {
  StoreRequest made = WriteOf(request, ++serial_);
  Start(std::move(made), request.deadline, [done = std::move(done)](const absl::StatusOr<std::string>& result) mutable {
    if (!result.ok()) return done(result.status());
    done(Written{.was_missing = *result == kWrittenAnew});
  });
}

void RedisStore::Take(const SessionId& id, const StoreFence& fence, absl::Time deadline, ReadDone done) {
  StartRead(TakeOf(id, fence), deadline, std::move(done));
}

void RedisStore::Read(const SessionId& id, absl::Time deadline, ReadDone done) {
  StartRead(ReadOf(id), deadline, std::move(done));
}

void RedisStore::StartRead(StoreRequest made, absl::Time deadline, ReadDone done) {
  Start(std::move(made), deadline, [done = std::move(done)](absl::StatusOr<std::string> result) mutable {
    if (!result.ok()) return done(result.status());
    done(ParseStored(*std::move(result)));
  });
}

void RedisStore::Start(StoreRequest made, absl::Time deadline, StoreRequest::Done done) {
  const auto request = std::make_shared<StoreRequest>(std::move(made));
  request->done = std::move(done);
  request->start = loop_->Now();
  request->deadline = std::min(deadline, request->start + options_.most_wait);
  request->charged = static_cast<int64_t>(request->bytes());

  const int64_t requests = requests_.fetch_add(1) + 1;
  const int64_t bytes = bytes_.fetch_add(request->charged) + request->charged;
  if (options_.metrics != nullptr) options_.metrics->queued->Add(1);
  if (requests > options_.most_requests) {
    return Finish(*request, Full(absl::StrCat(options_.most_requests, " requests wait for its answer")));
  }
  if (bytes > options_.most_bytes) {
    return Finish(*request, Full(absl::StrCat(options_.most_bytes, " bytes wait for its answer")));
  }
  {
    MutexLock lock(mutex_);
    if (stopped_) {
      lock.unlock();
      return Finish(*request, Away("the server shuts down"));
    }
    incoming_.push_back(request);
    if (incoming_.size() > 1) return;  // the task that takes the first one takes this one, too
  }
  loop_->Post([this] { TakeIncoming(); });
}

void RedisStore::Finish(StoreRequest& request, absl::StatusOr<std::string> result) {
  StoreRequest::Done done = std::exchange(request.done, nullptr);
  requests_.fetch_sub(1);
  bytes_.fetch_sub(request.charged);
  request.arguments = {};
  if (options_.metrics != nullptr) {
    options_.metrics->queued->Add(-1);
    options_.metrics->Count(request.operation, result.status().code(), loop_->Now() - request.start);
  }
  done(std::move(result));
}

void RedisStore::TakeIncoming() {
  std::vector<RequestPtr> incoming;
  {
    const MutexLock lock(mutex_);
    incoming.swap(incoming_);
  }
  for (const RequestPtr& request : incoming) {
    live_.insert(request);
    request->timer = loop_->At(request->deadline, [this, request] { OnDeadline(request); });
  }
  for (const RequestPtr& request : incoming) Route(request);
}

void RedisStore::RetryLater(const RequestPtr& request, absl::Status why) {
  request->last_error = std::move(why);
  request->redirect.reset();
  request->asking = false;
  loop_->At(loop_->Now() + kRetryPause * absl::Uniform(random_, 0.5, 1.0), [this, request] {
    if (request->done != nullptr) Route(request);
  });
}

void RedisStore::OnDeadline(const RequestPtr& request) {
  live_.erase(request);
  absl::Status why = request->last_error.ok() && map_.hosts().empty() ? discovery_problem_ : request->last_error;
  if (RedisNode* const node = NodeOf(*request); node != nullptr) {
    if (why.ok() && request->deadline - request->start >= kSilence) node->NoteSilence();
    if (!node->is_answering()) why = node->problem();
    if (why.ok()) why = absl::UnavailableError(HostText(node->host()));
  }
  Finish(*request, Away(absl::StrCat("no answer in time; ", why.message())));
}

void RedisStore::OnReply(RedisNode& node, const RequestPtr& request, const redisReply& reply) {
  if (reply.type == REDIS_REPLY_ERROR) return OnError(node, request, ReadRedisError(ReplyText(reply)));
  live_.erase(request);
  loop_->Cancel(request->timer);
  Finish(*request, MeaningOf(*request, reply));
}

void RedisStore::OnError(RedisNode& node, const RequestPtr& request, const RedisError& error) {
  const std::string text = absl::StrCat(HostText(node.host()), ": ", error.text);
  using Kind = RedisError::Kind;
  if (error.kind == Kind::kNoScript && !request->whole_script) {
    request->whole_script = true;
    return node.Submit(request);
  }
  if (error.kind == Kind::kRetry) return RetryLater(request, absl::UnavailableError(text));
  if (error.kind == Kind::kReplica) {
    RetryLater(request, absl::UnavailableError(text));
    return node.Reconnect(absl::UnavailableError(error.text));
  }
  if (discovery_ != nullptr && (error.kind == Kind::kMoved || error.kind == Kind::kAsk)) {
    return Redirect(node, request, error);
  }
  live_.erase(request);
  loop_->Cancel(request->timer);
  if (error.kind == Kind::kFull) return Finish(*request, Full(text));
  if (const auto skipped = log_limit_.Allow(loop_->Now())) {
    LogWarning("the session store refuses a request", {{"reason", text}, {"skipped", absl::StrCat(*skipped)}});
  }
  const char* const fix = error.kind == Kind::kMoved ? "; it is a cluster: use redis+cluster://" : "";
  Finish(*request, absl::FailedPreconditionError(absl::StrCat("the session store refuses the request: ", text, fix)));
}

void RedisStore::OnUnanswered(const RequestPtr& request, const absl::Status& why) {
  request->last_error = why;
  request->redirect.reset();
  request->asking = false;
  Route(request);
}

void RedisStore::OnBytes(int64_t sent, int64_t received) {
  if (options_.metrics == nullptr) return;
  options_.metrics->sent->Add(sent);
  options_.metrics->received->Add(received);
}

}  // namespace rnnserve
