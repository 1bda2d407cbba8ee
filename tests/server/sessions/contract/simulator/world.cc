// SPDX-License-Identifier: Apache-2.0
// Clients and chance. The server's side is in world_server.cc.
#include "tests/server/sessions/contract/simulator/world.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace rnnserve::sim {
namespace {

constexpr int kActions = 60;
constexpr int kHonestNumbers = 12;
constexpr int kMostEvents = 5000;
constexpr char kTenant[] = "t";

}  // namespace

World::World(uint64_t seed, Fault fault, Counters* counters)
    : fault_(fault),
      counters_(counters),
      random_(seed),
      window_(static_cast<int>(Draw(1, 4))),
      max_in_flight_(static_cast<int>(Draw(2, 5))),
      idle_timeout_(absl::Seconds(Draw(2, 8))) {
  options_.keys.boot = 2;
  options_.keys.secrets = {std::string(32, 'k')};
  real_ = std::make_unique<MemorySessions>(options_, &clock_);
  sessions_ = std::make_unique<FaultySessions>(real_.get(), fault, window_);
  const SessionKeys other_boot({options_.keys.secrets, 1});
  other_boot_key_ = other_boot.Make(kTenant).Text();
  swept_at_ = clock_.Now();
}

void World::Later(absl::Duration delay, std::function<void()> run) {
  events_.push({clock_.Now() + delay, ++events_made_, std::move(run)});
}

void World::Wrong(const std::string& text) {
  if (!wrong_) wrong_ = text;
}

std::optional<std::string> World::Run() {
  OpenSessions();
  for (int k = 0; k < kActions; ++k) {
    const auto client = static_cast<size_t>(Draw(0, static_cast<int64_t>(clients_.size()) - 1));
    Later(absl::Milliseconds(Draw(0, 3000)), [this, client] { Act(client); });
  }
  for (int k = 0; k < 6; ++k) Later(absl::Seconds(k), [this] { Sweep(); });
  while (!events_.empty() && !wrong_) {
    if (events_made_ > kMostEvents) Wrong("it does not come to an end");
    const Event event = events_.top();
    events_.pop();
    if (event.at > clock_.Now()) clock_.Move(event.at - clock_.Now());
    event.run();
    for (size_t k = 0; k < subjects_.size(); ++k) Compare(k);
    if (events_.empty() && !quiet_) {
      quiet_ = true;
      Finish();
    }
  }
  for (Subject& subject : subjects_) subject.jobs.clear();
  return wrong_;
}

void World::OpenSessions() {
  const auto sessions = static_cast<size_t>(Draw(1, 2));
  for (size_t k = 0; k < sessions; ++k) {
    OpenSpec spec;
    spec.tenant = kTenant;
    spec.name = absl::StrCat("session ", k);
    spec.subject = std::make_shared<SessionSubject>();
    auto state = std::make_shared<SessionState>();
    state->rows = 2;
    state->handles = {std::make_shared<Rows>(), std::make_shared<Rows>()};
    spec.state = std::move(state);
    spec.terms = {idle_timeout_, max_in_flight_, {window_, 1 << 20}};
    absl::StatusOr<OpenedSession> opened = sessions_->Open(std::move(spec));
    Subject subject;
    subject.session = opened->session;
    subject.key = opened->key;
    subject.oracle = std::make_unique<Oracle>(Oracle::Terms{max_in_flight_, window_, idle_timeout_}, Age());
    subject.honest = Chance(50);
    clients_.push_back({.session = k, .honest = subject.honest, .tells_epoch = Chance(50)});
    if (!subject.honest) clients_.push_back({.session = k, .honest = false, .tells_epoch = Chance(50)});
    subjects_.push_back(std::move(subject));
  }
}

void World::Connect(Client& client) {
  if (client.connection == 0) client.connection = ++connections_made_;
}

// The caller cannot be told from one whose wire broke: what it has sent may still come.
void World::Disconnect(Client& client) {
  const uint64_t gone = std::exchange(client.connection, 0);
  if (gone == 0) return;
  Count("connection lost");
  Subject& subject = subjects_[client.session];
  for (auto& [request, job] : subject.jobs) {
    if (job.connection != gone || !job.lease) continue;
    Count(job.numbered ? "connection lost while its numbered operation computes"
                       : "connection lost while its unnumbered operation computes");
    const bool ends =
        job.numbered ? fault_ == Fault::kNumberedEndsWithCaller : fault_ != Fault::kUnnumberedOutlivesCaller;
    if (!job.numbered) subject.oracle->Finish(false, absl::StatusCode::kCancelled, clock_.Now(), Age());
    if (ends) End(client.session, request, false, absl::StatusCode::kCancelled);
    return;
  }
}

void World::Send(size_t index, Request request, int delay_ms) {
  Client& client = clients_[index];
  Connect(client);
  request.id = ++requests_made_;
  asked_[request.id] = {client.session, index, false};
  if (Chance(8)) request.deadline = clock_.Now() + absl::Milliseconds(delay_ms + Draw(0, 60));
  if (Chance(6) && !quiet_) {
    request.fault = Chance(60) ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInvalidArgument;
  }
  if (client.tells_epoch) request.owner_epoch = client.owner_epoch;
  const uint64_t connection = request.attachment == kNoAttachment ? client.connection : client.connection;
  Later(absl::Milliseconds(delay_ms),
        [this, session = client.session, connection, request] { Deliver(session, connection, request, true); });
}

void World::Act(size_t index) {
  Client& client = clients_[index];
  const auto content = [&](uint64_t number) { return number * 1000 + client.session; };
  const int delay = Chance(20) ? static_cast<int>(Draw(0, 200)) : static_cast<int>(Draw(0, 5));
  Request request;
  request.attachment = 1;  // of the connection, when it arrives
  const auto numbered = [&](uint64_t number) {
    request.number = number;
    request.content = content(number);
    Send(index, request, delay);
  };
  const int64_t action = Draw(1, 100);
  if (action <= 45 && (!client.honest || client.next <= kHonestNumbers)) {
    const auto burst = static_cast<uint64_t>(Draw(1, 3));
    for (uint64_t k = 0; k < burst; ++k) numbered(client.next++);
  } else if (action <= 62) {
    if (client.next > 1) numbered(static_cast<uint64_t>(Draw(1, static_cast<int64_t>(client.next) - 1)));
  } else if (action <= 70) {
    Disconnect(client);
  } else if (action <= 72) {
    GlanceAt(client.session);
  } else if (action <= 74) {
    AttachByName(index);
  } else if (action <= 77) {
    ProbeKeys();
  } else if (action <= 79) {
    Stop();
  } else if (client.honest) {
    numbered(client.next + static_cast<uint64_t>(Draw(1, 3)));  // too early, or in time by then
  } else if (action <= 85) {
    request.number = static_cast<uint64_t>(Draw(0, static_cast<int64_t>(client.next)));
    request.content = 777;
    Send(index, request, delay);
  } else if (action <= 94) {
    if (Chance(50)) request.attachment = kNoAttachment;
    request.content = static_cast<uint64_t>(Draw(500, 600));
    Send(index, request, delay);
  } else if (action <= 96) {
    request.closes = true;
    request.content = 999;
    request.number = client.next;
    Send(index, request, delay);
    Send(index, request, delay + static_cast<int>(Draw(1, 100)));
  } else {
    client.next = subjects_[client.session].oracle->last_applied() + 1;
  }
}

// No more faults. Each honest client resumes where its session stands, and then all it had to say was applied once.
void World::Finish() {
  for (size_t k = 0; k < clients_.size(); ++k) {
    Client& client = clients_[k];
    Subject& subject = subjects_[client.session];
    if (!client.honest || !subject.oracle->live()) continue;
    if (client.next <= kHonestNumbers || subject.oracle->last_applied() < kHonestNumbers) {
      Disconnect(client);
      Connect(client);
      AttachByName(k);
      const uint64_t number = subject.oracle->last_applied() + 1;
      Request request;
      request.attachment = 1;
      request.number = number;
      request.content = number * 1000 + client.session;
      client.next = number + 1;
      Send(k, request, 1);
      Later(absl::Milliseconds(500), [this] { Finish(); });
      return;
    }
    for (size_t n = 0; n < subject.oracle->log().size(); ++n) {
      if (subject.oracle->log()[n] != (n + 1) * 1000 + client.session)
        Wrong("an honest client's operation is lost or doubled");
    }
    Count("honest client done");
  }
}

void World::ProbeKeys() {
  const absl::Status other_boot = sessions_->Find(other_boot_key_, kTenant).status();
  if (!absl::IsDataLoss(other_boot)) Wrong(absl::StrCat("a key of another boot: ", other_boot.ToString()));
  std::string never = subjects_[0].key;
  never.back() = never.back() == 'A' ? 'B' : 'A';
  const absl::Status unknown = sessions_->Find(never, kTenant).status();
  if (!absl::IsNotFound(unknown)) Wrong(absl::StrCat("a key that never was: ", unknown.ToString()));
  const absl::Status foreign = sessions_->Find(subjects_[0].key, "foreign").status();
  if (foreign != unknown)
    Wrong(absl::StrCat("a foreign key: ", foreign.ToString(), ", an unknown one: ", unknown.ToString()));
  for (const std::string& key : {other_boot_key_, subjects_[0].key}) {  // one letter of those that name the run
    std::string made_up = key;
    char& letter = made_up[static_cast<size_t>(Draw(3, 12))];
    letter = letter == 'A' ? 'B' : 'A';
    const absl::Status told = sessions_->Find(made_up, kTenant).status();
    if (told != unknown) Wrong(absl::StrCat("a made-up key: ", told.ToString()));
  }
  Count("keys probed");
}

void World::AttachByName(size_t index) {
  Client& client = clients_[index];
  Subject& subject = subjects_[client.session];
  OpenAsk ask;
  ask.tenant = kTenant;
  ask.name = absl::StrCat("session ", client.session);
  ask.attach = ask.must_exist = true;
  ask.request = {absl::StrCat("open ", ++opens_made_), {}};
  const bool agrees = !Chance(20) || quiet_;
  ask.agrees = [agrees](const Session&) {
    return agrees ? absl::OkStatus() : absl::FailedPreconditionError("other rows");
  };
  const absl::StatusOr<OpenedSession> told = *sessions_->FindOpened(ask);
  if (!subject.oracle->live() || !agrees) {
    const absl::StatusCode expected =
        subject.oracle->live() ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kNotFound;
    if (told.status().code() != expected) Wrong(absl::StrCat("an attach: ", told.status().ToString()));
    return Count(agrees ? "attach to a session that is no more" : "attach that disagrees");
  }
  client.owner_epoch = subject.oracle->Attach(Age());
  const absl::StatusOr<OpenedSession> again = *sessions_->FindOpened(ask);
  for (const absl::StatusOr<OpenedSession>& opened : {told, again}) {
    if (!opened.ok() || opened->key != subject.key || opened->is_new || opened->owner_epoch != client.owner_epoch) {
      Wrong(absl::StrCat("an attach is told ", opened.ok() ? absl::StrCat("epoch ", opened->owner_epoch) : "an error",
                         "; expected ", client.owner_epoch));
    }
  }
  Count("attached by name");
}

}  // namespace rnnserve::sim
