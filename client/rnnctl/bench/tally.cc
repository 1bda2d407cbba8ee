// SPDX-License-Identifier: Apache-2.0
#include "client/rnnctl/bench/tally.h"

#include <grpcpp/support/status.h>

#include <algorithm>

namespace rnnserve::rnnctl::bench {

void Tally::Record(const Answer& answer, std::chrono::nanoseconds latency_of_call,
                   std::chrono::nanoseconds lag_of_call) {
  if (answer.code != 0) {
    Errors& of_code = errors[answer.code];
    if (of_code.count++ == 0) of_code.first_message = answer.message;
    if (answer.code == grpc::StatusCode::RESOURCE_EXHAUSTED) refusal.Add(latency_of_call - lag_of_call);
    return;
  }
  latency.Add(latency_of_call);
  lag.Add(lag_of_call);
  if (answer.has_server_times) {
    queue.Add(answer.queue);
    compute.Add(answer.compute);
  }
  largest_batch = std::max(largest_batch, answer.largest_batch);
  sent_bytes += answer.sent_bytes;
  received_bytes += answer.received_bytes;
  steps += answer.steps;
  same += answer.match == Match::kSame;
  close += answer.match == Match::kClose;
  wrong += answer.match == Match::kWrong;
}

void Tally::Merge(const Tally& other) {
  latency.Merge(other.latency);
  lag.Merge(other.lag);
  queue.Merge(other.queue);
  compute.Merge(other.compute);
  refusal.Merge(other.refusal);
  late += other.late;
  largest_batch = std::max(largest_batch, other.largest_batch);
  for (const auto& [code, theirs] : other.errors) {
    Errors& ours = errors[code];
    if (ours.count == 0) ours.first_message = theirs.first_message;
    ours.count += theirs.count;
  }
  same += other.same;
  close += other.close;
  wrong += other.wrong;
  sent_bytes += other.sent_bytes;
  received_bytes += other.received_bytes;
  steps += other.steps;
  span += other.span;
  cpu += other.cpu;
}

int64_t Tally::failed() const {
  int64_t count = 0;
  for (const auto& [code, of_code] : errors) count += of_code.count;
  return count;
}

double Tally::CallsPerSecond() const {
  const double seconds = std::chrono::duration<double>(span).count();
  return seconds > 0 ? static_cast<double>(good() - late) / seconds : 0;
}

double Tally::StepsPerSecond() const {
  return good() == 0 ? 0 : CallsPerSecond() * static_cast<double>(steps) / static_cast<double>(good());
}

WindowFigures Tally::Figures() const {
  return {CallsPerSecond(), std::chrono::duration<double>(latency.Mean()).count()};
}

}  // namespace rnnserve::rnnctl::bench
