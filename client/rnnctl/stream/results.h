// SPDX-License-Identifier: Apache-2.0
// What `rnnctl stream` does with results as they come: lines for people, JSON lines, raw values, or .npy files at the
// end; and the figures of the whole run.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/rnn_stream.h"

namespace rnnserve::rnnctl {

enum class ResultForm { kTable, kJson, kRaw };

class StreamResults {
 public:
  // `folder`: where outputs go as .npy, or empty. `values`: elements of each output in a line of the table.
  // `step_axes`: of the outputs that have a value for each step.
  StreamResults(ResultForm form, std::string folder, size_t values, std::map<std::string, size_t> step_axes,
                std::ostream& out)
      : form_(form), folder_(std::move(folder)), values_(values), step_axes_(std::move(step_axes)), out_(out) {}

  // One chunk of so many steps, answered after `latency`. Writes and flushes its line.
  absl::Status Add(client::ChunkResult result, int64_t steps, std::chrono::nanoseconds latency);
  // Outputs of all steps, the last of every other output, and the session's final state.
  absl::Status WriteFiles(const std::vector<client::Tensor>& final_state) const;

  // For people, and as one JSON line. `audio`: how long the input took or stands for; 0: unknown.
  std::string Summary(std::chrono::nanoseconds wall, std::chrono::nanoseconds audio,
                      const client::StreamRepairs& repairs) const;
  std::string SummaryJson(std::chrono::nanoseconds wall, std::chrono::nanoseconds audio,
                          const client::StreamRepairs& repairs, const std::string& session,
                          const std::string& server) const;

 private:
  double LatencyMs(double quantile) const;

  const ResultForm form_;
  const std::string folder_;
  const size_t values_;
  const std::map<std::string, size_t> step_axes_;
  std::ostream& out_;
  std::vector<std::vector<client::Tensor>> outputs_;  // of each chunk, if they are written to files
  std::vector<std::chrono::nanoseconds> latencies_;
  int64_t steps_ = 0;
};

}  // namespace rnnserve::rnnctl
