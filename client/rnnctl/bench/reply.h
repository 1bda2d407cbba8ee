// SPDX-License-Identifier: Apache-2.0
// Reads from a serialised InferResponse only what a load test reports, passing over the tensors without copying them.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>

#include "client/rnnctl/bench/sender.h"

namespace rnnserve::rnnctl::bench {

// Fills queue, compute, largest_batch and has_server_times. False if the bytes are no message; the rest is kept.
bool ReadTimes(google::protobuf::io::ZeroCopyInputStream& bytes, Answer& answer);

}  // namespace rnnserve::rnnctl::bench
