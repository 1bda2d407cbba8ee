// SPDX-License-Identifier: Apache-2.0
#include "tests/server/sessions/contract/simulator/oracle.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rnnserve::sim {

using absl::StatusCode;

std::string Told::Text() const {
  return absl::StrCat(absl::StatusCodeToString(code), " ", reason, " number ", number, " reply \"", reply, "\"",
                      repeated ? " repeated" : "", " last_applied ", last_applied);
}

std::optional<int> Oracle::running() const {
  if (queue_.empty()) return std::nullopt;
  return queue_.front().first.id;
}

void Oracle::Answer(int id, StatusCode code, std::string reason) {
  answers_[id] = {code, std::move(reason), 0, "", false, last_applied_};
}

size_t Oracle::Waiting(size_t entries) const {
  size_t waiting = 0;
  for (size_t k = 0; k < entries; ++k) waiting += queue_[k].waiting.size();
  return waiting;
}

uint64_t Oracle::Owner() const {
  uint64_t owner = applied_by_;
  for (const Entry& entry : queue_) owner = std::max(owner, entry.first.attachment);
  return owner;
}

// What computes, what belongs to the owner already, and what the new one has asked for itself.
size_t Oracle::Stays(uint64_t attachment) const {
  if (attachment == 0 || attachment <= Owner()) return queue_.size();
  size_t stays = std::min<size_t>(queue_.size(), 1);
  while (stays < queue_.size() && queue_[stays].newest >= attachment) ++stays;
  return stays;
}

uint64_t Oracle::Attach(absl::Duration age) {
  used_ = age;
  return ++owner_epoch_;
}

// Everything from there on.
void Oracle::Abort(size_t from, const std::string& reason) {
  while (queue_.size() > from) {
    for (const int id : queue_[from].waiting) Answer(id, StatusCode::kAborted, reason);
    queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(from));
  }
}

bool Oracle::IsRepetition(const Request& request) const {
  const auto kept = kept_.find(request.number.value_or(0));
  if (kept != kept_.end()) return kept->second.content == request.content;
  return std::ranges::any_of(queue_, [&](const Entry& entry) {
    return request.number == entry.number && entry.first.number && entry.first.content == request.content;
  });
}

// Rules 1 and 2.
bool Oracle::AnswerKnown(const Request& request) {
  const uint64_t number = *request.number;
  if (number == 0) {
    Answer(request.id, StatusCode::kInvalidArgument, "NUMBER_ZERO");
    return true;
  }
  if (number <= last_applied_) {
    const auto kept = kept_.find(number);
    if (kept == kept_.end()) {
      if (live_) Answer(request.id, StatusCode::kAlreadyExists, "NUMBER_TOO_OLD");
      if (!live_) Answer(request.id, StatusCode::kNotFound, "SESSION_ENDED");
    } else if (kept->second.content != request.content) {
      Answer(request.id, StatusCode::kAborted, "NUMBER_REUSED");
    } else {
      answers_[request.id] = {StatusCode::kOk, "", number, kept->second.reply, true, number};
    }
    return true;
  }
  const size_t place = number - last_applied_ - 1;
  if (place >= queue_.size()) return false;
  Entry& entry = queue_[place];
  if (!entry.first.number || entry.first.content != request.content) {
    // Rule 6: the queue of an older owner does not bind a newer one.
    if (place == Stays(request.attachment)) return false;
    Answer(request.id, StatusCode::kAborted, "NUMBER_REUSED");
  } else if (Waiting(queue_.size()) >= static_cast<size_t>(2 * terms_.max_in_flight)) {
    Answer(request.id, StatusCode::kResourceExhausted, "TOO_MANY_IN_FLIGHT");
  } else {
    entry.waiting.push_back(request.id);
    entry.newest = std::max(entry.newest, request.attachment);
  }
  return true;
}

void Oracle::Submit(const Request& request, absl::Duration now, absl::Duration age) {
  if (forgotten_) return Answer(request.id, StatusCode::kNotFound, "SESSION_ENDED");
  used_ = age;
  const bool is_stale = request.owner_epoch && *request.owner_epoch != owner_epoch_;
  if (live_ && is_stale && request.number != 0 && !IsRepetition(request)) {  // rule 6
    return Answer(request.id, StatusCode::kAborted, "FENCED");
  }
  if (request.number && AnswerKnown(request)) return;
  if (!live_) return Answer(request.id, StatusCode::kNotFound, "SESSION_ENDED");
  if (request.attachment != 0 && request.attachment < Owner()) {
    return Answer(request.id, StatusCode::kAborted, "OLDER_OWNER");
  }
  if (!request.number && !queue_.empty()) {  // rule 5
    return Answer(request.id, StatusCode::kFailedPrecondition, "OPERATION_IN_FLIGHT");
  }
  const size_t stays = Stays(request.attachment);
  const uint64_t next = last_applied_ + stays + 1;
  if (request.number.value_or(next) > next) {  // rule 1
    const bool is_behind = refused_ && refused_->first == next && *request.number <= refused_->last + 1;
    if (!is_behind) return Answer(request.id, StatusCode::kOutOfRange, "NUMBER_TOO_HIGH");
    refused_->last = std::max(refused_->last, *request.number);
    return Answer(request.id, refused_->code, refused_->reason);
  }
  if (request.fault != StatusCode::kOk) return Refuse(request, request.fault, "");
  if (Waiting(stays) >= static_cast<size_t>(terms_.max_in_flight)) {
    return Refuse(request, StatusCode::kResourceExhausted, "TOO_MANY_IN_FLIGHT");
  }
  Abort(stays, "OLDER_OWNER");
  refused_.reset();
  queue_.push_back({request, next, {request.id}, request.attachment});
  if (queue_.size() == 1) StartNext(now);
}

void Oracle::Refuse(const Request& request, StatusCode code, const std::string& reason) {
  Answer(request.id, code, reason);
  if (code != StatusCode::kResourceExhausted || !request.number) return;
  const uint64_t last = refused_ && refused_->first == *request.number ? refused_->last : 0;
  refused_ = Refused{*request.number, std::max(last, *request.number), code, reason};
}

// Rule 4.
void Oracle::Fail(size_t place, StatusCode code) {
  const Entry entry = queue_[place];
  const uint64_t last = queue_.back().number;
  queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(place));
  for (const int id : entry.waiting) Answer(id, code);
  Abort(place, "PREVIOUS_FAILED");
  if (code != StatusCode::kResourceExhausted) return;
  const uint64_t before = refused_ && refused_->first == entry.number ? refused_->last : 0;
  refused_ = Refused{entry.number, std::max(before, last), code, ""};
}

// Rule 3: what is too late when its turn comes is not computed.
void Oracle::StartNext(absl::Duration now) {
  if (!queue_.empty() && now >= queue_.front().first.deadline) Fail(0, StatusCode::kDeadlineExceeded);
}

void Oracle::Finish(bool ok, StatusCode failure, absl::Duration now, absl::Duration age) {
  used_ = age;
  if (ok && now >= queue_.front().first.deadline) return Fail(0, StatusCode::kDeadlineExceeded);  // rule 3
  if (!ok) return Fail(0, failure);
  const Entry entry = std::move(queue_.front());
  queue_.erase(queue_.begin());
  last_applied_ = entry.number;
  applied_by_ = std::max(applied_by_, entry.first.attachment);
  if (!entry.first.closes) log_.push_back(entry.first.content);
  const std::string reply = absl::StrCat(entry.number, ":", entry.first.content);
  for (const int id : entry.waiting) answers_[id] = {StatusCode::kOk, "", entry.number, reply, false, last_applied_};
  if (entry.first.number) {
    kept_[entry.number] = {entry.first.content, reply};
    if (kept_.size() > static_cast<size_t>(terms_.window)) kept_.erase(kept_.begin());
  }
  if (entry.first.closes) {
    live_ = false;
    while (!queue_.empty()) {
      for (const int id : queue_.front().waiting) Answer(id, StatusCode::kNotFound, "SESSION_ENDED");
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
