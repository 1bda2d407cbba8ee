// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/sessions/link.h"

#include "client/rnnctl/bench/event_queue.h"

namespace rnnserve::rnnctl::bench {
namespace {

constexpr char kStreamMethod[] = "/rnnserve.v1.Recurrent/Stream";

}  // namespace

std::string& Link::Message() {
  if (outgoing_.empty() || outgoing_.back().operations >= operations_a_message_) outgoing_.emplace_back();
  ++outgoing_.back().operations;
  return outgoing_.back().bytes;
}

void Link::Flush() {
  if (outgoing_.empty()) return;
  if (!context_) return Start();
  if (!ready_ || writing_ || ending_) return;
  writing_ = true;
  const grpc::Slice slice(outgoing_.front().bytes);
  echoes_.push_back(outgoing_.front().operations);
  outgoing_.pop_front();
  call_->Write(grpc::ByteBuffer(&slice, 1), &written_);
}

void Link::Cancel() {
  if (context_) context_->TryCancel();
}

int64_t Link::TakeEchoed() {
  if (echoes_.empty()) return 0;
  const int64_t operations = echoes_.front();
  echoes_.pop_front();
  return operations;
}

void Link::Start() {
  ready_ = writing_ = ending_ = has_ended_ = false;
  last_heard_ = SteadyNow();
  context_.emplace();
  context_->set_wait_for_ready(true);  // a server that went away is waited for, not hammered
  AddToken(*context_, *options_);
  call_ = stub_->PrepareCall(&*context_, kStreamMethod, queue_);
  call_->StartCall(&started_);
}

void Link::Read() { call_->Read(&incoming_, &read_); }

void Link::Started(bool ok) {
  if (!ok) return End();
  ready_ = true;
  Read();
  Flush();
}

void Link::HasRead(bool ok) {
  if (!ok) return End();
  last_heard_ = SteadyNow();
  grpc::Slice whole;
  const bool is_there = incoming_.TrySingleSlice(&whole).ok() || incoming_.DumpToSingleSlice(&whole).ok();
  incoming_.Clear();
  Read();
  if (is_there) hooks_->received(*this, {reinterpret_cast<const char*>(whole.begin()), whole.size()});
}

void Link::Written(bool) {
  writing_ = false;
  if (has_ended_) return EndIfQuiet();
  Flush();
}

// The only way to a status is Finish, whatever went wrong.
void Link::End() {
  ending_ = true;
  call_->Finish(&status_, &finished_);
}

void Link::Finished(bool) {
  has_ended_ = true;
  EndIfQuiet();
}

void Link::EndIfQuiet() {
  if (writing_) return;  // its event is still to come
  call_.reset();
  context_.reset();
  outgoing_.clear();
  echoes_.clear();
  const grpc::Status status =
      status_.ok() ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server ended the stream") : status_;
  hooks_->broke(*this, status);
}

}  // namespace rnnserve::rnnctl::bench
