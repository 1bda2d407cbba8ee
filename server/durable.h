// SPDX-License-Identifier: Apache-2.0
// What durable sessions need, as --store and --session_secret_file say: the store, records, the shared secret.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "server/security/secret_file.h"
#include "server/sessions/contract/memory_sessions.h"
#include "server/sessions/execution/record_codec.h"
#include "server/telemetry/store_metrics.h"

namespace rnnserve {

class Durable {
 public:
  // Without --store sessions stay in the process. All arguments outlive it. FAILED_PRECONDITION, INVALID_ARGUMENT: what
  // is wrong with the flags or their files.
  static absl::StatusOr<std::unique_ptr<Durable>> Start(Metrics& metrics, SessionCore& core, MemorySessions& sessions);

  // Takes changed secrets over.
  void LookAtSecrets();
  // Whether the last exchange with the store succeeded. Nothing: there is no store.
  std::optional<bool> IsStoreReachable() const;

 private:
  explicit Durable(MemorySessions& sessions) : sessions_(sessions) {}

  MemorySessions& sessions_;
  std::optional<SecretFile> secrets_;
  std::optional<StoreMetrics> metrics_;
  std::unique_ptr<SessionRecordCodec> codec_;
  // In this order: the store's thread may still call the others.
  std::unique_ptr<SessionRecords> records_;
  std::unique_ptr<SessionStore> store_;
};

}  // namespace rnnserve
