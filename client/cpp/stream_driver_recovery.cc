// SPDX-License-Identifier: Apache-2.0
// The thread of a StreamDriver: finds operations that wait too long, and reattaches or reopens the session.
#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/field_error.h"
#include "base/status_macros.h"
#include "client/cpp/random_id.h"
#include "client/cpp/servers.h"
#include "client/cpp/status.h"
#include "client/cpp/stream_driver.h"
#include "client/cpp/tries.h"
#include "client/cpp/verdict.h"
#include "rnnserve/v1/sessions.grpc.pb.h"

namespace rnnserve::client {
namespace {

using std::chrono::milliseconds;

// One server's chance to open a session, and to answer at all, before another is asked.
constexpr milliseconds kOpenTime = std::chrono::seconds(15);
constexpr milliseconds kSilence = std::chrono::seconds(20);
// Tries to reach the server that has the session before one is opened elsewhere.
constexpr int kTriesAtSessionServer = 3;
// Where the server is known to be gone: its machine refuses the connection.
constexpr int kTriesAtDeadServer = 1;

StreamJournal::Agreed AgreedIn(const v1::OpenResponse& response) {
  return {response.max_in_flight(), response.window_operations() == 0 ? 0 : response.window_bytes(),
          response.owner_epoch(),
          response.durability() == v1::OpenRequest::INTERVAL || response.durability() == v1::OpenRequest::SYNC};
}

StreamDriver::Session Opened(const v1::OpenResponse& response, const v1::OpenRequest& request, size_t server,
                             std::string route) {
  const bool is_new =
      response.last_applied() == 0 && response.created() && request.initial_case() != v1::OpenRequest::kStateOfSession;
  return {response.session(),
          response.fingerprint(),
          response.last_applied(),
          AgreedIn(response),
          server,
          0,
          std::move(route),
          is_new ? StreamJournal::Origin::kAsOpened : StreamJournal::Origin::kElsewhere};
}

ClientOptions ConnectionOptions(const StreamOptions& options) {
  return {.max_receive_bytes = options.max_receive_bytes,
          .timeout = std::min(options.max_wait, kOpenTime),
          .credentials = options.credentials};
}

absl::Status Lost(std::string_view why, const absl::Status& status) {
  return WithReason(absl::DataLossError(absl::StrCat(absl::string_view(why.data(), why.size()), status.message())),
                    "SESSION_LOST");
}

}  // namespace

StreamDriver::Candidates StreamDriver::Candidates::Of(std::vector<std::string> targets, const std::string& name,
                                                      const StreamOptions& options) {
  Candidates candidates{std::make_shared<Lookup>(targets), {}};
  candidates.servers = candidates.lookup->has_names() ? candidates.lookup->Look() : std::move(targets);
  if (options.load_balancing == LoadBalancing::kSpread) {
    candidates.servers = OrderForSession(std::move(candidates.servers), name, RandomId());
  }
  return candidates;
}

absl::StatusOr<Connection> StreamDriver::Candidates::Connect(size_t server, const StreamOptions& options,
                                                             bool own_socket) const {
  const std::string& address = servers[server];
  return Connection::Make(address, ConnectionOptions(options),
                          {.own_socket = own_socket, .name = lookup->NameOf(address)});
}

absl::StatusOr<StreamDriver::Session> StreamDriver::Open(const Candidates& candidates, const v1::OpenRequest& request,
                                                         const StreamOptions& options) {
  v1::OpenRequest repeatable = request;
  if (repeatable.request_id().empty()) repeatable.set_request_id(RandomId());
  std::string route = RandomId();
  absl::Status last = absl::InvalidArgumentError("no server is named; name at least one");
  Backoff backoff(std::random_device{}(), kLongestPause);
  const Time began = Clock::now();
  bool has_answered = false;
  int tries = 0;
  std::set<size_t> without_engine;
  for (int round = 1;; ++round) {
    bool may_help = false;
    for (size_t k = 0; k < candidates.servers.size(); ++k) {
      if (without_engine.contains(k)) continue;
      absl::StatusOr<Connection> connection = candidates.Connect(k, options, /*own_socket=*/false);
      if (!connection.ok()) return connection.status();
      connection->route = route;
      v1::OpenResponse response;
      ++tries;
      last = candidates.servers.size() > 1 ? connection->CheckServing() : absl::OkStatus();
      if (last.ok()) {
        last = connection->Run([&](grpc::ClientContext& context) {
          return v1::Sessions::NewStub(connection->channel)->Open(&context, repeatable, &response);
        });
      }
      if (last.ok()) return Opened(response, request, k, route);
      if (!IsTransient(last)) return last;
      // A draining server has opened nothing; behind a proxy another route may lead to another server. A request whose
      // answer may be lost keeps its route: the server recognises its request id.
      if (IsRefusal(last)) route = RandomId();
      // A failed connection is UNAVAILABLE by now, so a server that used up the deadline is reachable.
      has_answered = has_answered || IsFromServer(last) || absl::IsDeadlineExceeded(last);
      if (LacksEngine(last)) {
        without_engine.insert(k);
        continue;
      }
      may_help = may_help || absl::IsUnavailable(last) || !RetryDelayOf(last);
    }
    const Time now = Clock::now();
    const Time next = now + backoff.After(round);
    const bool is_over =
        next >= began + (has_answered ? options.max_wait : std::min(options.max_wait, kFirstContactTime));
    if (!may_help || is_over) return WithTries(last, tries, now - began);
    std::this_thread::sleep_until(next);
  }
}

void StreamDriver::Loop() {
  // What comes up between two looks is found at the next: bounds on waiting are as coarse as this.
  const auto tick = std::clamp<milliseconds>(options_.max_wait / 4, milliseconds(10), milliseconds(500));
  Lock lock(mutex_);
  while (!stopping_) {
    Calls calls = Check(lock);
    std::vector<std::shared_ptr<OperationStream>> ended = std::exchange(ended_, {});
    if (!calls.empty() || !ended.empty()) {
      lock.unlock();
      ended.clear();
      for (auto& call : calls) call();
      calls.clear();
      lock.lock();
      continue;
    }
    if (stopping_) break;
    const bool is_over = closed_ || !failed_.ok();
    const Time now = Clock::now();
    Time wake = now + tick;
    if (!is_over && wire_ == nullptr) wake = std::min(wake, recover_at_);
    if (!is_over && now < pause_until_) wake = std::min(wake, pause_until_);
    changed_.wait_until(lock, wake);
  }
}

StreamDriver::Calls StreamDriver::Check(Lock& lock) {
  Calls calls;
  if (closed_ || !failed_.ok()) return calls;
  const Time now = Clock::now();
  if (absl::Status too_long = TooLong(now); !too_long.ok()) {
    Fail(std::move(too_long), calls);
    return calls;
  }
  if (wire_ != nullptr && journal_.IsCarriedOver()) LeaveDrained();
  if (wire_ != nullptr && IsSilent(now)) {
    last_error_ = absl::UnavailableError("the server has not answered for a while");
    wire_->Cancel();
    DropWire();
  }
  if (wire_ == nullptr) {
    if (!broken_since_) broken_since_ = now;
    if (now >= recover_at_) Recover(lock, calls);
  } else {
    Pump(now);
  }
  return calls;
}

absl::Status StreamDriver::TooLong(Time now) const {
  const std::optional<Time> oldest = journal_.OldestUnanswered();
  const bool waits = oldest && now - *oldest > options_.max_wait;
  if (broken_since_ && (waits || now - *broken_since_ > options_.max_wait)) {
    return Lost(absl::StrCat("the session could not be reached again within ", options_.max_wait.count(),
                             " ms, and what is kept here was not enough to go on elsewhere; the last try said: "),
                last_error_);
  }
  if (!waits) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("the server did not answer an operation within the ",
                                                  options_.max_wait.count(), " ms of StreamOptions::max_wait"));
}

// A connection may break unnoticed: a new connection finds out, and joins the operations in flight.
bool StreamDriver::IsSilent(Time now) const {
  return journal_.IsWaiting() && now - last_message_at_ > std::min<milliseconds>(kSilence, options_.max_wait / 3);
}

void StreamDriver::StartWire(const Connection& connection) {
  ++wire_id_;
  ++open_wires_;
  last_message_at_ = pause_until_ = Clock::now();
  wire_ = OperationStream::Start(connection, this, wire_id_);
  std::erase_if(wires_, [](const auto& wire) { return wire.expired(); });
  wires_.push_back(wire_);
  Pump(last_message_at_);
}

void StreamDriver::DropWire() {
  wire_.reset();
  journal_.Detach();
  recover_at_ = Clock::now() + backoff_.After(tries_);
}

void StreamDriver::Fail(absl::Status status, Calls& calls) {
  failed_ = std::move(status);
  if (wire_ != nullptr) wire_->Cancel();
  wire_.reset();
  for (auto& [ticket, done] : waiting_) {
    calls.push_back([done = std::move(done), failed = failed_]() mutable { done(std::move(failed)); });
  }
  waiting_.clear();
  room_.notify_all();
}

// The server has lost the session or a reply.
void StreamDriver::Lose(absl::Status status, Calls& calls) {
  if (wire_ != nullptr) wire_->Finish();
  DropWire();
  if (!journal_.CanReplay()) {
    const bool says_itself =
        status.code() == absl::StatusCode::kDataLoss || status.code() == absl::StatusCode::kNotFound;
    return Fail(says_itself
                    ? std::move(status)
                    : Lost("a reply is gone, and without checkpoint_every nothing was kept to make it again: ", status),
                calls);
  }
  last_error_ = std::move(status);
  session_server_.reset();
  next_server_ = last_session_server_;
}

// Any server of the store goes on with a durable session.
void StreamDriver::GoToNextServer() {
  session_server_ = last_session_server_ = (last_session_server_ + 1) % candidates_.servers.size();
}

// The state is here, or in the store; the server may go.
void StreamDriver::LeaveDrained() {
  wire_->Finish();
  if (journal_.IsDurable()) {
    DropWire();
    GoToNextServer();
    route_ = RandomId();
    recover_at_ = Clock::now() + backoff_.After(drains_ / static_cast<int>(candidates_.servers.size()));
    ++drains_;
    tries_ = 0;
    return;
  }
  wire_.reset();
  session_server_.reset();
  next_server_ = last_session_server_ + 1;
  reopen_route_ = RandomId();  // away from the draining server, behind a proxy that still sends to it
  handing_over_ = true;
  tries_ = 0;
  recover_at_ = Clock::now();
  last_error_ = absl::UnavailableError("the server is leaving");
}

void StreamDriver::Recover(Lock& lock, Calls& calls) {
  const bool is_another = candidates_.servers.size() > 1 + without_engine_.size();
  const int tries_there = ReasonOf(last_error_) == kCannotConnect ? kTriesAtDeadServer : kTriesAtSessionServer;
  const bool gives_up = is_another && tries_ >= tries_there;
  const bool goes_elsewhere =
      !session_server_ || (!journal_.IsDurable() && journal_.CanReplay() && gives_up && tries_ % 2 == 1);
  if (session_server_ && journal_.IsDurable() && gives_up) {
    LookUpAgain(lock);
    if (stopping_ || !failed_.ok()) return;
    GoToNextServer();
  }
  ++tries_;
  recover_at_ = Clock::now() + backoff_.After(tries_);
  if (goes_elsewhere) {
    OpenAnew(lock, calls);
  } else {
    Reattach(calls);
  }
}

void StreamDriver::Reattach(Calls& calls) {
  // All streams of a program share the first connection. A later one has its own socket: it does not wait for the
  // others' reconnecting and may reach another server.
  const bool is_first = wire_id_ == 0;
  absl::StatusOr<Connection> connection = candidates_.Connect(*session_server_, options_, /*own_socket=*/!is_first);
  if (!connection.ok()) return Fail(connection.status(), calls);
  connection->route = route_;
  if (!is_first) ++repairs_.reconnects;
  StartWire(*connection);
}

v1::OpenRequest StreamDriver::RequestFromSnapshot() {
  v1::OpenRequest request = request_;
  if (reopen_id_.empty()) reopen_id_ = RandomId();
  request.set_request_id(reopen_id_);
  request.set_attach(false);
  request.set_must_exist(false);
  if (const auto& tensors = journal_.snapshot().tensors) {
    *request.mutable_state() = *tensors;
    request.clear_rows();  // SelectRows may have changed them; the state has as many as it has
  }
  return request;
}

// Other servers may be behind the names by now.
void StreamDriver::LookUpAgain(Lock& lock) {
  if (!candidates_.lookup->has_names() || Clock::now() < look_at_) return;
  const std::shared_ptr<Lookup> lookup = candidates_.lookup;
  lock.unlock();
  std::vector<std::string> found = lookup->Look();
  lock.lock();
  look_at_ = Clock::now() + kLookAgainTime;
  std::vector<std::string> before = candidates_.servers;
  const std::string last = before[last_session_server_];
  if (std::find(found.begin(), found.end(), last) == found.end()) found.push_back(last);
  std::vector<std::string> sorted = found;
  std::sort(sorted.begin(), sorted.end());
  std::sort(before.begin(), before.end());
  if (sorted == before) return;
  if (options_.load_balancing == LoadBalancing::kSpread) {
    found = OrderForSession(std::move(found), request_.name(), RandomId());
  }
  last_session_server_ = static_cast<size_t>(std::find(found.begin(), found.end(), last) - found.begin());
  if (session_server_) session_server_ = last_session_server_;
  next_server_ = last_session_server_ + 1;
  without_engine_.clear();
  candidates_.servers = std::move(found);
}

absl::Status StreamDriver::CallOpen(Lock& lock, const Connection& connection, const v1::OpenRequest& request,
                                    v1::OpenResponse& response) {
  const bool is_one_of_several = candidates_.servers.size() > 1;
  const auto call = [&](auto run) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    grpc::ClientContext context;
    connection.AddMetadata(context);
    context.set_deadline(std::chrono::system_clock::now() + connection.options.timeout);
    opening_ = &context;
    lock.unlock();
    absl::Status status = run(context);
    lock.lock();
    opening_ = nullptr;
    return stopping_ ? absl::CancelledError("the stream was let go") : status;
  };
  if (is_one_of_several) {
    RETURN_IF_ERROR(call([&](grpc::ClientContext& context) { return connection.CheckServing(context); }));
  }
  return call([&](grpc::ClientContext& context) {
    return connection.Explain(v1::Sessions::NewStub(connection.channel)->Open(&context, request, &response));
  });
}

void StreamDriver::OpenAnew(Lock& lock, Calls& calls) {
  LookUpAgain(lock);
  if (stopping_ || !failed_.ok()) return;
  size_t server = 0;
  do {
    server = next_server_++ % candidates_.servers.size();
  } while (session_server_ == server || without_engine_.contains(server));
  if (reopen_route_.empty()) reopen_route_ = route_;
  const v1::OpenRequest request = RequestFromSnapshot();
  absl::StatusOr<Connection> connection = candidates_.Connect(server, options_, /*own_socket=*/true);
  if (!connection.ok()) return Fail(connection.status(), calls);
  connection->route = reopen_route_;
  v1::OpenResponse response;
  const absl::Status status = CallOpen(lock, *connection, request, response);
  if (stopping_ || !failed_.ok()) return;
  recover_at_ = Clock::now() + backoff_.After(tries_);
  if (!status.ok()) {
    last_error_ = status;
    if (IsRefusal(status)) reopen_route_ = RandomId();
    if (LacksEngine(status)) without_engine_.insert(server);
    if (!IsTransient(status) || (!session_server_ && without_engine_.size() == candidates_.servers.size()))
      Fail(Lost(absl::StrCat(candidates_.servers[server], " did not take the session over: "), status), calls);
    return;
  }
  if (response.fingerprint() != fingerprint_) {
    return Fail(absl::FailedPreconditionError(absl::StrCat(
                    candidates_.servers[server], " has another operator under this name (its fingerprint is ",
                    response.fingerprint(), ", the session's ", fingerprint_, "), so the state cannot go on there")),
                calls);
  }
  journal_.BeginAgain(response.session(), agreed_ = AgreedIn(response));
  reopen_id_.clear();
  route_ = std::exchange(reopen_route_, {});
  session_server_ = last_session_server_ = server;
  ++(std::exchange(handing_over_, false) ? repairs_.hand_overs : repairs_.replays);
  StartWire(*connection);
}

}  // namespace rnnserve::client
