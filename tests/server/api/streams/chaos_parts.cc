// SPDX-License-Identifier: Apache-2.0
// What rounds and scenes share.
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/server/api/streams/chaos.h"

namespace rnnserve {

void Chaos::Wrong(const Mirror* mirror, const std::string& what) {
  if (!wrong_.empty()) return;
  wrong_ = mirror == nullptr ? what
                             : absl::StrCat("session of ", mirror->now.rows.size(), " rows at number ",
                                            mirror->now.number, ": ", what);
}

void Chaos::Open(Mirror& mirror) {
  v1::OpenRequest request = OpenRemembering(static_cast<int64_t>(mirror.now.rows.size()));
  request.set_request_id(absl::StrCat("open", ++next_request_));
  request.set_max_in_flight(16);
  if (mirror.now.rows != Rows(mirror.now.rows.size(), Memory(kRemembered))) {
    *request.mutable_state() = StateMessage(mirror.now.rows);
    Happened("opened with a state");
  }
  for (int k = 0; k < 2; ++k) {
    v1::OpenResponse response;
    grpc::ClientContext context;
    const grpc::Status status = control_.sessions->Open(&context, request, &response);
    if (!status.ok()) return Wrong(&mirror, status.error_message());
    if (k == 1 && response.session() != mirror.key) return Wrong(&mirror, "a session was opened twice");
    mirror.key = response.session();
  }
  Happened("opened, twice by the same request_id");
}

void Chaos::Look(Mirror& mirror) {
  v1::GetStateRequest request;
  request.set_session(mirror.key);
  v1::GetStateResponse response;
  grpc::ClientContext context;
  const grpc::Status status = control_.sessions->GetState(&context, request, &response);
  const std::string mistake = status.ok() ? Mistake(mirror.now, response) : status.error_message();
  if (!mistake.empty()) Wrong(&mirror, mistake);
}

std::optional<v1::OperationReply> Chaos::ApplyOnce(const v1::Operation& operation) {
  return ApplyClient(*control_.sessions, operation).Await();
}

void Chaos::AwaitApplied(const Mirror& mirror, uint64_t number) {
  const absl::StatusOr<SessionPtr> session = server_.sessions.Find(mirror.key, "");
  while ((*session)->view().numbers.last_applied < number) std::this_thread::yield();
}

void Chaos::MayCompute(const Planned& planned, int more) {
  for (const float x : planned.values) excused_[x] += more;
}

void Chaos::CheckComputed() {
  const std::unordered_map<float, int> computed = server_.engine.computed();
  for (const auto& [x, times] : computed) {
    const auto excused = excused_.find(x);
    const int most = (applied_.count(x) > 0 ? 1 : 0) + (excused == excused_.end() ? 0 : excused->second);
    if (times > most) return Wrong(nullptr, absl::StrCat("x = ", x, " was computed ", times, " times, not ", most));
  }
  for (const auto& [x, once] : applied_) {
    if (computed.count(x) == 0) return Wrong(nullptr, absl::StrCat("x = ", x, " was never computed"));
  }
}

void Chaos::CheckAllStates() {
  for (Mirror& mirror : mirrors_) {
    if (wrong_.empty()) Look(mirror);
  }
  if (static_cast<size_t>(server_.sessions.live()) != mirrors_.size()) {
    Wrong(nullptr, absl::StrCat(server_.sessions.live(), " sessions live, not ", mirrors_.size()));
  }
}

}  // namespace rnnserve
