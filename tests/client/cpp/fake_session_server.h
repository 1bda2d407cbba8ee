// SPDX-License-Identifier: Apache-2.0
// The contract of sessions in a few lines, for the journal's tests: one session whose state is the log of what it was
// fed, with numbers and a window.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "rnnserve/v1/sessions.pb.h"

namespace rnnserve::client {

inline v1::Operation Fed(const std::string& what) {
  v1::Operation operation;
  operation.mutable_chunk()->add_inputs()->set_name(what);
  return operation;
}

class FakeSessionServer {
 public:
  // Opens the session, from a state that GetState gave or from nothing.
  std::string Open(const v1::StateTensors* state) {
    log_ = state == nullptr ? std::vector<std::string>() : LogOf(state->tensors());
    last_applied_ = 0;
    position_ = 0;
    kept_.clear();
    record_ = record_before_ = {log_, 0, 0, {}};
    draining_ = false;
    owner_epoch_ = 1;
    key_ = "boot" + std::to_string(++boots_);
    return key_;
  }
  // Another client attaches.
  void Attach() { ++owner_epoch_; }
  uint64_t owner_epoch() const { return owner_epoch_; }
  // Another session that starts from this one's state.
  FakeSessionServer Fork() const {
    FakeSessionServer fork = *this;
    fork.key_ = key_ + "fork";
    fork.kept_.clear();
    fork.owner_epoch_ = 1;
    return fork;
  }
  void Kill() { key_ = "none"; }
  // A session of the store. Its record is written after so many changes; 0: the session is local. A record has the
  // newest replies, too.
  void WriteEvery(uint64_t changes, size_t replies = 1) {
    write_every_ = changes;
    written_replies_ = replies;
  }
  // Another server goes on with what the store has. It is not the one that leaves.
  void TakeOver() {
    log_ = record_.log;
    last_applied_ = record_.last_applied;
    position_ = record_.position;
    kept_ = record_.kept;
    draining_ = false;
  }
  // The store loses its newest record, as in a failover that had not replicated it.
  void LoseNewestRecord() { record_ = record_before_; }
  void Drain() { draining_ = true; }
  bool is_draining() const { return draining_; }
  // Refuses the next change for the time being.
  void RefuseNext() { refuses_next_ = true; }

  // Applies the next change and says that it is ABORTED, as where the newer owner has sent it, too.
  void AbortNext(const std::string& reason) { aborts_next_ = reason; }

  v1::OperationReply Apply(const v1::Operation& operation) {
    v1::OperationReply reply;
    reply.set_request_id(operation.request_id());
    if (operation.session() != key_) return Refuse(reply, 15, "SESSION_LOST");
    if (operation.has_get_state()) {
      reply.mutable_get_state()->set_number(last_applied_);
      reply.mutable_get_state()->set_position(position_);
      *reply.mutable_get_state()->mutable_state() = State();
      return Told(reply);
    }
    const auto kept = kept_.find(operation.number());
    if (kept != kept_.end()) {
      reply = kept->second;
      reply.set_request_id(operation.request_id());
      return reply;
    }
    reply.set_last_applied(last_applied_);
    reply.set_next_expected(last_applied_ + 1);
    if (operation.number() <= last_applied_) return Refuse(reply, 6, "NUMBER_TOO_OLD");
    if (operation.has_owner_epoch() && operation.owner_epoch() != owner_epoch_) return Refuse(reply, 10, "FENCED");
    if (operation.number() > last_applied_ + 1) return Refuse(reply, 11, "NUMBER_TOO_HIGH");
    if (draining_) return Refuse(reply, 14, "DRAINING");
    if (std::exchange(refuses_next_, false)) return Refuse(reply, 14, "");
    if (operation.has_chunk() && operation.chunk().inputs(0).name() == "bad") return Refuse(reply, 3, "");
    if (operation.has_set_state()) {
      log_ = LogOf(operation.set_state().state().tensors());
    } else if (operation.has_select_rows()) {
      // There is one row.
    } else if (operation.has_close()) {
      *reply.mutable_final_state() = State();
    } else if (operation.has_reset()) {
      log_.clear();
      position_ = 0;
    } else {
      log_.push_back(operation.chunk().inputs(0).name());
      ++position_;
    }
    ++last_applied_;
    ++steps_run_;
    kept_[last_applied_] = Told(reply);
    if (kept_.size() > window_) kept_.erase(kept_.begin());
    if (write_every_ > 0 && last_applied_ % write_every_ == 0) Write();
    if (!aborts_next_.empty()) {
      v1::OperationReply aborted;
      aborted.set_request_id(operation.request_id());
      return Refuse(aborted, 10, std::exchange(aborts_next_, ""));
    }
    return Told(reply);
  }

  const std::string& key() const { return key_; }
  uint64_t last_applied() const { return last_applied_; }
  const std::vector<std::string>& log() const { return log_; }
  int steps_run() const { return steps_run_; }
  size_t window_ = 16;

 private:
  v1::OperationReply Told(v1::OperationReply reply) const {
    reply.set_number(last_applied_);
    if (write_every_ > 0) reply.set_durable_number(record_.last_applied);
    reply.set_position(position_);
    *reply.mutable_outputs() = State().tensors();  // what callers see
    return reply;
  }
  static v1::OperationReply Refuse(v1::OperationReply reply, int code, const std::string& reason) {
    reply.mutable_status()->set_code(code);
    reply.mutable_status()->set_message(reason);
    google::rpc::ErrorInfo info;
    info.set_reason(reason);
    if (!reason.empty()) reply.mutable_status()->add_details()->PackFrom(info);
    return reply;
  }
  v1::StateTensors State() const {
    v1::StateTensors state;
    for (const std::string& entry : log_) {
      v1::Tensor& tensor = *state.add_tensors();
      tensor.set_name(entry);
      tensor.set_data_type(v1::FLOAT);
      tensor.add_shape(0);
    }
    return state;
  }

 public:
  using Tensors = google::protobuf::RepeatedPtrField<v1::Tensor>;
  static std::vector<std::string> LogOf(const Tensors& tensors) {
    std::vector<std::string> log;
    for (const v1::Tensor& tensor : tensors) log.push_back(tensor.name());
    return log;
  }

 private:
  struct Record {
    std::vector<std::string> log;
    uint64_t last_applied = 0;
    uint64_t position = 0;
    std::map<uint64_t, v1::OperationReply> kept;
  };
  void Write() {
    record_before_ = std::exchange(record_, {log_, last_applied_, position_, kept_});
    while (record_.kept.size() > written_replies_) record_.kept.erase(record_.kept.begin());
  }

  Record record_, record_before_;
  uint64_t write_every_ = 0;
  size_t written_replies_ = 1;
  std::string key_ = "none";
  int boots_ = 0;
  int steps_run_ = 0;
  uint64_t last_applied_ = 0;
  uint64_t owner_epoch_ = 1;
  bool draining_ = false;
  bool refuses_next_ = false;
  std::string aborts_next_;
  std::vector<std::string> log_;
  std::map<uint64_t, v1::OperationReply> kept_;
  uint64_t position_ = 0;
};

}  // namespace rnnserve::client
