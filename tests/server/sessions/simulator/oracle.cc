// SPDX-License-Identifier: Apache-2.0
#include "tests/server/sessions/simulator/oracle.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace rnnserve::sim {

using absl::StatusCode;

std::string Told::Text() const {
  return absl::StrCat(absl::StatusCodeToString(code), " number ", number, " reply \"", reply, "\"",
                      repeated ? " repeated" : "", " last_applied ", last_applied);
}

std::optional<int> Oracle::running() const {
  if (queue_.empty()) return std::nullopt;
  return queue_.front().first.id;
}

void Oracle::Answer(int id, StatusCode code) { answers_[id] = {code, 0, "", false, last_applied_}; }

size_t Oracle::Waiting() const {
  size_t waiting = 0;
  for (const Entry& entry : queue_) waiting += entry.waiting.size();
  return waiting;
}

// Everything from there on.
void Oracle::Abort(size_t from) {
  while (queue_.size() > from) {
    for (const int id : queue_[from].waiting) Answer(id, StatusCode::kAborted);
    queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(from));
  }
}

void Oracle::Submit(const Request& request, absl::Duration now, absl::Duration age) {
  if (forgotten_) return Answer(request.id, StatusCode::kNotFound);
  used_ = age;
  if (request.attachment != 0 && request.attachment != owner_) {  // rule 6
    if (request.attachment < owner_) return Answer(request.id, StatusCode::kAborted);
    owner_ = request.attachment;
    Abort(1);
  }
  const uint64_t next = last_applied_ + queue_.size() + 1;
  if (!request.number) {  // rule 5
    if (!live_) return Answer(request.id, StatusCode::kNotFound);
    if (!queue_.empty()) return Answer(request.id, StatusCode::kFailedPrecondition);
  } else if (*request.number == 0) {
    return Answer(request.id, StatusCode::kInvalidArgument);
  } else if (*request.number <= last_applied_) {  // rule 1
    const auto kept = kept_.find(*request.number);
    if (kept == kept_.end()) return Answer(request.id, live_ ? StatusCode::kAlreadyExists : StatusCode::kNotFound);
    if (kept->second.content != request.content) return Answer(request.id, StatusCode::kAborted);
    answers_[request.id] = {StatusCode::kOk, *request.number, kept->second.reply, true, *request.number};
    return;
  } else if (*request.number < next) {  // rule 2
    Entry& entry = queue_[*request.number - last_applied_ - 1];
    if (!entry.first.number || entry.first.content != request.content) return Answer(request.id, StatusCode::kAborted);
    if (Waiting() >= static_cast<size_t>(2 * terms_.max_in_flight)) {
      return Answer(request.id, StatusCode::kResourceExhausted);
    }
    entry.waiting.push_back(request.id);
    return;
  } else if (!live_) {
    return Answer(request.id, StatusCode::kNotFound);
  } else if (*request.number > next) {
    return Answer(request.id, StatusCode::kOutOfRange);
  }
  if (Waiting() >= static_cast<size_t>(terms_.max_in_flight)) return Answer(request.id, StatusCode::kResourceExhausted);
  queue_.push_back({request, next, {request.id}});
  if (queue_.size() == 1) StartNext(now);
}

// Rule 3: what is too late when its turn comes is not computed.
void Oracle::StartNext(absl::Duration now) {
  if (queue_.empty() || now < queue_.front().first.deadline) return;
  const Entry late = std::move(queue_.front());
  queue_.erase(queue_.begin());
  for (const int id : late.waiting) Answer(id, StatusCode::kDeadlineExceeded);
  Abort(0);
}

void Oracle::Finish(bool ok, StatusCode failure, absl::Duration now, absl::Duration age) {
  const Entry entry = std::move(queue_.front());
  queue_.erase(queue_.begin());
  used_ = age;
  if (ok && now >= entry.first.deadline) {  // rule 3
    ok = false;
    failure = StatusCode::kDeadlineExceeded;
  }
  if (!ok) {  // rule 4
    for (const int id : entry.waiting) Answer(id, failure);
    return Abort(0);
  }
  last_applied_ = entry.number;
  if (!entry.first.closes) log_.push_back(entry.first.content);
  const std::string reply = absl::StrCat(entry.number, ":", entry.first.content);
  for (const int id : entry.waiting) answers_[id] = {StatusCode::kOk, entry.number, reply, false, last_applied_};
  if (entry.first.number) {
    kept_[entry.number] = {entry.first.content, reply};
    if (kept_.size() > static_cast<size_t>(terms_.window)) kept_.erase(kept_.begin());
  }
  if (entry.first.closes) {
    live_ = false;
    while (!queue_.empty()) {
      for (const int id : queue_.front().waiting) Answer(id, StatusCode::kNotFound);
      queue_.erase(queue_.begin());
    }
  }
  StartNext(now);
}

void Oracle::Expire() {
  live_ = false;
  forgotten_ = true;
}

}  // namespace rnnserve::sim
