// SPDX-License-Identifier: Apache-2.0
// The real sessions behind a double that can be told to break one clause.
#pragma once

#include <map>
#include <set>
#include <utility>

#include "server/sessions/contract/memory_sessions.h"
#include "tests/server/sessions/contract/simulator/fault.h"

namespace rnnserve::sim {

class FaultySessions final : public Sessions {
 public:
  FaultySessions(MemorySessions* real, Fault fault, int window) : real_(real), fault_(fault), window_(window) {}

  std::optional<absl::StatusOr<OpenedSession>> FindOpened(const OpenAsk& ask) override;
  absl::StatusOr<OpenedSession> Open(OpenSpec spec) override {
    last_open_ = spec;
    return real_->Open(std::move(spec));
  }
  absl::StatusOr<SessionPtr> Find(std::string_view key, std::string_view tenant) override;
  std::optional<std::string> KeyOf(const SessionId& id) override { return real_->KeyOf(id); }
  void Acquire(const SessionPtr& session, Claim&& claim) override;
  void Read(const SessionPtr& session, ReadRequest read) override { real_->Read(session, std::move(read)); }
  void Fork(const SessionPtr& session, ForkSpec spec, ForkDone done) override {
    real_->Fork(session, std::move(spec), std::move(done));
  }
  absl::StatusOr<SessionPage> List(std::string_view tenant, int64_t page_size, std::string_view token) override {
    return real_->List(tenant, page_size, token);
  }
  Attachment Attach() override { return real_->Attach(); }
  void StartDrain() override { real_->StartDrain(); }
  LeftBehind CountLeftBehind() override { return real_->CountLeftBehind(); }

 private:
  void Renumber(const Session::View& view, Claim& claim) const;
  absl::StatusOr<OpenedSession> OpenAnew();
  // False: answered here.
  bool Disturb(const SessionPtr& session, const Session::View& view, Claim& claim);
  bool DisturbOwner(const SessionPtr& session, const Session::View& view, Claim& claim);
  void DisturbAnswer(const SessionPtr& session, Claim& claim);
  void Change(const SessionPtr& session, Attachment attachment, bool has_deadline, Outcome& outcome);

  MemorySessions* const real_;
  const Fault fault_;
  const int window_;
  OpenSpec last_open_;
  std::map<const Session*, std::set<uint64_t>> seen_;  // numbers
  std::map<const Session*, Attachment> newest_;        // that was heard of
  std::map<const Session*, Attachment> taken_by_;      // though it should not have been
};

}  // namespace rnnserve::sim
