// SPDX-License-Identifier: Apache-2.0
// Construction and charges. Which number means what is in session_admission.cc, what happens to accepted operations in
// session_flow.cc and session_end.cc, reads in session_reads.cc.
#include "server/sessions/contract/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/sessions/contract/session_records.h"

namespace rnnserve {

int64_t Session::Charge(const Terms& terms, const SessionState& state) {
  return kBytesPerSession + terms.max_in_flight * kBytesPerOperation + terms.window.bytes +
         terms.window.operations * Window::kBytesPerReply + state.bytes;
}

Session::Session(Start start, Terms terms, TenantBudget* budget, SessionSite* site)
    : key_(start.key),
      order_(start.order),
      name_(start.name.empty() ? nullptr : std::make_unique<const std::string>(std::move(start.name))),
      terms_(terms),
      subject_(std::move(start.subject)),
      budget_(budget),
      site_(site),
      state_(std::move(start.state)),
      numbers_(start.numbers),
      owner_epoch_(start.owner_epoch),
      charged_(state_->bytes),
      charged_for_terms_(Charge(terms, SessionState{})),
      last_used_(site->aging->Now()) {
  if (is_durable()) {
    stored_ = std::make_unique<Stored>();
    stored_->fence = start.fence ? *start.fence : SessionRecords::DrawFence();
    stored_->has_record = start.fence.has_value();
    stored_->durable_number = numbers_.last_applied;
  }
  if (start.last) window_.Keep(*std::move(start.last), terms_.window);
  CountLife(1);
  if (subject_->counters() != nullptr) subject_->counters()->opened->Add();
}

Session::~Session() {
  if (live_) {
    CountLife(-1);
    budget_->ReleaseSession(charged_);
  }
  if (!forgotten_) budget_->ReleaseBytes(charged_for_terms_);
}

std::optional<uint64_t> Session::RaiseOwnerEpoch() {
  const MutexLock lock(mutex_);
  if (!live_) return std::nullopt;
  last_used_ = site_->aging->Now();
  return ++owner_epoch_;
}

Session::View Session::view() const {
  const absl::Duration now = site_->aging->Now();
  const MutexLock lock(mutex_);
  View view;
  view.live = live_;
  view.cause = cause_;
  view.numbers = numbers_;
  view.in_flight = !in_flight_.empty();
  view.idle = view.in_flight ? absl::ZeroDuration() : now - last_used_;
  view.rows = live_ ? state_->rows : 0;
  view.state_bytes = live_ ? state_->bytes : 0;
  view.carried_over = carried_over_;
  if (stored_ != nullptr) {
    view.durable_number = stored_->durable_number;
    view.carried_over = undurable() == 0;
  }
  return view;
}

}  // namespace rnnserve
