// SPDX-License-Identifier: Apache-2.0
// Reads, feeds and prints at the same time.
#pragma once

#include "absl/status/status.h"
#include "client/cpp/rnn_stream.h"
#include "client/rnnctl/stream/results.h"
#include "client/rnnctl/stream/source.h"

namespace rnnserve::rnnctl {

// Feeds all of the source; `steps` counts on while it does. With a rate above 0, in steps a second, each chunk is sent
// when a source of that rate would have it, and its latency counts from there. Returns when all is answered, or at the
// first failure; the input is read only while things go well.
absl::Status FeedAll(ChunkSource& source, size_t step_axis, double rate, client::RnnStream& stream,
                     StreamResults& results, int64_t& steps);

}  // namespace rnnserve::rnnctl
