// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/stream/results.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "client/rnnctl/session_json.h"
#include "client/rnnctl/show.h"
#include "client/rnnctl/stream/steps.h"
#include "client/rnnctl/tensor_files.h"

namespace rnnserve::rnnctl {
namespace {

std::string Line(const client::ChunkResult& result, std::chrono::nanoseconds latency, size_t count) {
  std::string line = absl::StrFormat("%6d %10d %9.3f ", result.number, result.position, Milliseconds(latency));
  for (const client::Tensor& output : result.outputs) {
    const std::vector<double> values = client::ValuesOf(output);
    absl::StrAppend(&line, " ", output.name, ShapeString(output.shape));
    for (size_t k = 0; k < std::min(count, values.size()); ++k) absl::StrAppendFormat(&line, " %.6g", values[k]);
    if (values.size() > count) line += " ...";
  }
  return Printable(line) + "\n";
}

}  // namespace

absl::Status StreamResults::Add(client::ChunkResult result, int64_t steps, std::chrono::nanoseconds latency) {
  if (form_ == ResultForm::kTable) {
    if (latencies_.empty()) out_ << " CHUNK       STEP        MS  OUTPUTS\n";
    out_ << Line(result, latency, values_);
  } else if (form_ == ResultForm::kJson) {
    out_ << ToJsonLine(result);
  } else if (!result.outputs.empty()) {
    ASSIGN_OR_RETURN(client::Tensor floats, client::ConvertTensor(result.outputs[0], DataType::kFloat));
    out_ << floats.bytes;
  }
  latencies_.push_back(latency);
  steps_ += steps;
  if (!folder_.empty()) outputs_.push_back(std::move(result.outputs));
  return out_.flush() ? absl::OkStatus() : OutputError("cannot write to standard output");
}

absl::Status StreamResults::WriteFiles(const std::vector<client::Tensor>& final_state) const {
  if (folder_.empty()) return absl::OkStatus();
  std::vector<client::Tensor> files = final_state;
  if (!outputs_.empty()) {
    for (size_t k = 0; k < outputs_.back().size(); ++k) {
      const auto axis = step_axes_.find(outputs_.back()[k].name);
      if (axis == step_axes_.end() || outputs_.back()[k].shape.size() <= axis->second) {
        files.push_back(outputs_.back()[k]);
        continue;
      }
      std::vector<client::Tensor> pieces;
      for (const std::vector<client::Tensor>& chunk : outputs_) pieces.push_back(chunk[k]);
      files.push_back(JoinSteps(pieces, axis->second));
    }
  }
  return WriteTensors(files, folder_).status();
}

double StreamResults::LatencyMs(double quantile) const {
  if (latencies_.empty()) return 0;
  std::vector<std::chrono::nanoseconds> sorted = latencies_;
  std::sort(sorted.begin(), sorted.end());
  const auto rank = static_cast<size_t>(std::ceil(quantile * static_cast<double>(sorted.size())));
  return Milliseconds(sorted[std::max<size_t>(rank, 1) - 1]);
}

std::string StreamResults::Summary(std::chrono::nanoseconds wall, std::chrono::nanoseconds audio,
                                   const client::StreamRepairs& repairs) const {
  std::string text =
      absl::StrFormat("%d chunks, %d steps in %.3f s; latency p50 %.3f ms, p99 %.3f ms", latencies_.size(), steps_,
                      Milliseconds(wall) / 1e3, LatencyMs(0.5), LatencyMs(0.99));
  if (audio.count() > 0)
    absl::StrAppendFormat(&text, "; real-time factor %.3f", Milliseconds(wall) / Milliseconds(audio));
  if (repairs.reconnects + repairs.hand_overs + repairs.replays + repairs.takeovers > 0) {
    absl::StrAppend(&text, "; went on after ", repairs.reconnects, " lost connections, ", repairs.hand_overs,
                    " hand-overs, ", repairs.replays, " replays, ", repairs.takeovers, " takeovers");
  }
  return text + "\n";
}

std::string StreamResults::SummaryJson(std::chrono::nanoseconds wall, std::chrono::nanoseconds audio,
                                       const client::StreamRepairs& repairs, const std::string& session,
                                       const std::string& server) const {
  std::string factor = "null";
  if (audio.count() > 0) factor = absl::StrFormat("%.4f", Milliseconds(wall) / Milliseconds(audio));
  return absl::StrFormat(
      R"({"summary": {"chunks": %d, "steps": %d, "seconds": %.6f, "p50_ms": %.4f, "p99_ms": %.4f, "real_time_factor": %s, "reconnects": %d, "hand_overs": %d, "replays": %d, "takeovers": %d, "session": %s, "server": %s}})"
      "\n",
      latencies_.size(), steps_, Milliseconds(wall) / 1e3, LatencyMs(0.5), LatencyMs(0.99), factor, repairs.reconnects,
      repairs.hand_overs, repairs.replays, repairs.takeovers, JsonText(session), JsonText(server));
}

}  // namespace rnnserve::rnnctl
