// SPDX-License-Identifier: Apache-2.0
// Two servers that share a store.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tests/server/sessions/contract/fake_store.h"
#include "tests/server/sessions/contract/session_fixture.h"

namespace rnnserve {

class DurableFixture : public SessionFixture {
 protected:
  DurableFixture() {
    options_.keys.secrets = {std::string(32, 's')};
    other_ = std::make_unique<MemorySessions>(options_, &clock_);
    sessions().UseRecords(&records_);
    other_->UseRecords(&records_);
  }
  void TearDown() override {
    store_.answers_at_once = true;
    store_.AnswerAll();
    SessionFixture::TearDown();
    store_.AnswerAll();
  }

  // The fixture's calls go to the other server from now on.
  void Switch() { std::swap(sessions_, other_); }

  SessionPtr OpenDurable(Durability durability, std::string name = "") {
    OpenSpec spec = Spec();
    spec.terms.durability = durability;
    spec.name = std::move(name);
    const SessionPtr session = OpenWith(std::move(spec));
    session->Persist([](const absl::Status& written) { EXPECT_TRUE(written.ok()); });
    return session;
  }
  // As an operation finds its session.
  absl::StatusOr<SessionPtr> Find(const std::string& key, const std::string& tenant = "t") {
    absl::StatusOr<SessionPtr> found = sessions().Find(key, tenant);
    if (!IsElsewhere(found.status())) return found;
    std::optional<absl::StatusOr<SessionPtr>> fetched;
    sessions().Fetch(key, tenant, [&](absl::StatusOr<SessionPtr> session) { fetched.emplace(std::move(session)); });
    EXPECT_TRUE(fetched.has_value());
    return *fetched;
  }
  absl::StatusOr<OpenedSession> Attach(const std::string& name) { return OpenNamed(name, true); }
  absl::StatusOr<OpenedSession> OpenNamed(const std::string& name, bool attach) {
    std::optional<absl::StatusOr<std::optional<StoreFence>>> fence;
    sessions().FetchNamed("t", name, attach, [&](auto told) { fence.emplace(std::move(told)); });
    EXPECT_TRUE(fence.has_value());
    if (!fence->ok()) return fence->status();
    OpenSpec spec = Spec();
    spec.terms.durability = Durability::kSync;
    spec.name = name;
    spec.attach = attach;
    spec.fence = **fence;
    absl::StatusOr<OpenedSession> opened = sessions().Open(std::move(spec));
    if (!opened.ok()) return opened;
    absl::Status written = absl::UnknownError("not answered");
    opened->session->Persist([&](absl::Status status) { written = std::move(status); });
    if (!written.ok()) return written;
    return opened;
  }
  static uint64_t Applied(const SessionPtr& session) { return session->view().numbers.last_applied; }

  FakeStore store_;
  FakeCodec codec_;
  SessionRecords records_{&store_, &codec_};
  std::unique_ptr<MemorySessions> other_;
};

}  // namespace rnnserve
