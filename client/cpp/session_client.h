// SPDX-License-Identifier: Apache-2.0
// Sessions by unary calls, for tools and for callers of one operation now and then. To feed a session, use
// rnn_stream.h: it survives lost connections and servers, which these calls leave to the caller.
//
//   auto sessions = SessionClient::Create("127.0.0.1:50051");
//   auto opened = (*sessions)->Open({.target = ModelRef{"vad"}});
//   auto state = (*sessions)->GetState(opened->key);
//
// Safe from any thread. Calls block, as those of Client do; errors are explained as there.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "client/cpp/session_types.h"

namespace rnnserve::client {

class SessionClient {
 public:
  // Of several addresses, the first.
  static absl::StatusOr<std::unique_ptr<SessionClient>> Create(std::string address, ClientOptions options = {});
  ~SessionClient();
  SessionClient(const SessionClient&) = delete;
  SessionClient& operator=(const SessionClient&) = delete;

  absl::StatusOr<OpenedSession> Open(const SessionSpec& spec);
  // What is committed now.
  absl::StatusOr<SessionState> GetState(const std::string& key);
  // `names`: none, or one for each fork.
  absl::StatusOr<ForkedSessions> Fork(const std::string& key, int32_t count, const std::vector<std::string>& names);
  // Unnumbered: FAILED_PRECONDITION while another operation is in flight.
  absl::StatusOr<ClosedSession> Close(const std::string& key, bool return_state);
  // All of the caller's live sessions, page by page, at most `limit` of them; oldest first.
  absl::StatusOr<std::vector<SessionInfo>> List(size_t limit);

 private:
  struct Calls;  // keeps gRPC out of this header
  explicit SessionClient(std::unique_ptr<Calls> calls);

  std::unique_ptr<Calls> calls_;
};

}  // namespace rnnserve::client
