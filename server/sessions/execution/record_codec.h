// SPDX-License-Identifier: Apache-2.0
// Records of sessions as bytes: CRC-32C of the rest (4 bytes, little-endian), then record.proto. A record has the state
// and the newest reply; the model is named by its fingerprint, and each server brings its own copy. Checkpoints and
// older replies stay behind.
#pragma once

#include <string>
#include <string_view>

#include "server/sessions/contract/session_records.h"
#include "server/sessions/execution/session_core.h"

namespace rnnserve {

class SessionRecordCodec final : public RecordCodec {
 public:
  // Outlives it.
  explicit SessionRecordCodec(SessionCore* core) : core_(core) {}

  absl::StatusOr<std::string> Encode(const SessionRecord& record) override;
  absl::StatusOr<SessionRecord> Decode(std::string_view bytes) override;

 private:
  SessionCore* const core_;
};

}  // namespace rnnserve
