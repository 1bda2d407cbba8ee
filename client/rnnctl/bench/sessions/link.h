// SPDX-License-Identifier: Apache-2.0
// One Recurrent.Stream of a load test. Operations that are added while the wire is busy travel together, up to a number
// of them a message. A stream that broke is told once, and the next operation starts another.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "client/cpp/client.h"
#include "client/rnnctl/bench/sender.h"

namespace rnnserve::rnnctl::bench {

class Link {
 public:
  struct Hooks {
    std::function<void(Link& link, std::string_view message)> received;
    // All that was added and not answered is lost.
    std::function<void(Link& link, const grpc::Status& status)> broke;
  };
  // What the queue's events are tagged with.
  struct Event {
    Link* link;
    void (Link::*proceed)(bool ok);
  };
  static void Proceed(void* tag, bool ok) {
    const Event& event = *static_cast<Event*>(tag);
    (event.link->*event.proceed)(ok);
  }

  // The pointers outlive it, and so do the queue's events.
  Link(grpc::GenericStub* stub, grpc::CompletionQueue* queue, const client::ClientOptions* options,
       int64_t operations_a_message, const Hooks* hooks)
      : stub_(stub), queue_(queue), options_(options), operations_a_message_(operations_a_message), hooks_(hooks) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // To be appended to, exactly one operation.
  std::string& Message();
  // Sends what has been added, as far as the wire is free.
  void Flush();
  // Ends the stream, if there is one; its end is told.
  void Cancel();

  // Operations of the oldest message whose echo has not been asked for.
  int64_t TakeEchoed();
  // When the last message came, or the stream began.
  Time last_heard() const { return last_heard_; }

 private:
  struct Outgoing {
    std::string bytes;
    int64_t operations = 0;
  };

  void Start();
  void Read();
  void Started(bool ok);
  void HasRead(bool ok);
  void Written(bool ok);
  void Finished(bool ok);
  void End();
  void EndIfQuiet();

  grpc::GenericStub* const stub_;
  grpc::CompletionQueue* const queue_;
  const client::ClientOptions* const options_;
  const int64_t operations_a_message_;
  const Hooks* const hooks_;

  Event started_{this, &Link::Started};
  Event read_{this, &Link::HasRead};
  Event written_{this, &Link::Written};
  Event finished_{this, &Link::Finished};

  std::optional<grpc::ClientContext> context_;  // while there is a stream
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  grpc::ByteBuffer incoming_;
  grpc::Status status_;
  bool ready_ = false;  // may be written to
  bool writing_ = false;
  bool ending_ = false;     // nothing more is read
  bool has_ended_ = false;  // the status is there
  std::deque<Outgoing> outgoing_;
  std::deque<int64_t> echoes_;  // operations of each message sent
  Time last_heard_{0};
};

}  // namespace rnnserve::rnnctl::bench
