// SPDX-License-Identifier: Apache-2.0
#include "server/batching/queue_bounds.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace rnnserve {

absl::Status QueueBounds::Check(const Submission& submission) const {
  if (sequences_.used() == 0 || submission.goes_on) return absl::OkStatus();
  const int64_t rows = static_cast<int64_t>(submission.tasks.size());
  std::string reason;
  if (!sequences_.Fits(submission.caller_id, rows)) {
    reason = absl::StrCat(sequences_.used(), " of ", sequences_.most(), " sequences are waiting or running, ",
                          sequences_.held(submission.caller_id), " of them this caller's, and ", rows, " more came");
  } else if (!bytes_.Fits(submission.caller_id, submission.bytes)) {
    reason =
        absl::StrCat("requests that wait or run hold ", bytes_.used(), " of ", bytes_.most(), " bytes, ",
                     bytes_.held(submission.caller_id), " of them this caller's, and ", submission.bytes, " more came");
  } else {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat("the queue is full: ", reason, "; send the request again later"));
}

void QueueBounds::Take(uint64_t tenant, int64_t sequences, int64_t bytes) {
  sequences_.Take(tenant, sequences);
  bytes_.Take(tenant, bytes);
}

void QueueBounds::Release(uint64_t tenant, int64_t sequences, int64_t bytes) {
  sequences_.Release(tenant, sequences);
  bytes_.Release(tenant, bytes);
}

}  // namespace rnnserve
