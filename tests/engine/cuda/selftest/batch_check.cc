// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/cuda/selftest/batch_check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace rnnserve::selftest {
namespace {

// Cells whose gates leave [0, 1] grow from step to step, and so does what rounding has left.
constexpr double kStableBound = 1e3;

class Arena {
 public:
  Arena(int type, int64_t rows, int64_t steps, int64_t width, bool batch_major)
      : type_(type),
        rows_(rows),
        steps_(steps),
        width_(width),
        batch_major_(batch_major),
        bytes_(static_cast<size_t>(rows * steps * width) * ElementBytes(type) + 1) {}
  // One byte off, so that nothing is aligned by luck.
  unsigned char* At(int64_t t, int64_t n) {
    const int64_t row = batch_major_ ? n * steps_ + t : t * rows_ + n;
    return bytes_.data() + 1 + static_cast<size_t>(row * width_) * ElementBytes(type_);
  }
  std::ptrdiff_t Stride() const {
    return static_cast<std::ptrdiff_t>((batch_major_ ? 1 : rows_) * width_ * static_cast<int64_t>(ElementBytes(type_)));
  }

 private:
  int type_;
  int64_t rows_, steps_, width_;
  bool batch_major_;
  std::vector<unsigned char> bytes_;
};

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a script of measurements.
Outcome RunBatch(Program& program, const Weights& weights, const Batch& batch, std::mt19937& random) {
  Outcome outcome;
  const rnnserve_cell& cell = program.cell();
  const int type = cell.data_type;
  const auto inputs = static_cast<size_t>(cell.input_size);
  const auto hidden = static_cast<size_t>(cell.hidden_size);
  std::uniform_real_distribution<double> draw(-1, 1);
  Arena x(type, batch.rows, batch.steps, cell.input_size, batch.batch_major);
  Arena y(type, batch.rows, batch.steps, cell.hidden_size, batch.batch_major);
  std::vector<std::vector<double>> inputs_of(static_cast<size_t>(batch.rows));  // in processing order
  std::vector<HostState> initial(static_cast<size_t>(batch.rows));
  std::vector<std::unique_ptr<State>> before, after;
  std::vector<rnnserve_slice> slices;
  for (int64_t n = 0; n < batch.rows; ++n) {
    const auto row = static_cast<size_t>(n);
    const int64_t length = batch.lengths[row];
    for (int64_t k = 0; k < length; ++k) {
      std::vector<double> step(inputs);
      for (double& v : step) v = RoundTo(type, draw(random));
      Encode(type, step.data(), inputs, x.At(batch.reverse ? length - 1 - k : k, n));
      inputs_of[row].insert(inputs_of[row].end(), step.begin(), step.end());
    }
    initial[row] = {std::vector<double>(hidden, 0.0), std::vector<double>(hidden, 0.0)};
    before.push_back(std::make_unique<State>(program));
    after.push_back(std::make_unique<State>(program));
    if (batch.initial) {
      for (double& v : initial[row].h) v = RoundTo(RNNSERVE_FLOAT, draw(random));
      for (double& v : initial[row].c) v = RoundTo(RNNSERVE_FLOAT, draw(random));
      if (cell.kind != RNNSERVE_LSTM) initial[row].c.assign(hidden, 0.0);
      before.back()->Import(initial[row]);
    }
    const std::ptrdiff_t sign = batch.reverse ? -1 : 1;
    const int64_t first = batch.reverse ? length - 1 : 0;
    slices.push_back({x.At(first, n), sign * x.Stride(), y.At(first, n), sign * y.Stride(), length,
                      batch.initial ? before.back()->get() : nullptr, after.back()->get()});
  }
  if (!batch.chunked) {
    outcome.code = program.Advance(slices);
  } else {
    // Cut each sequence where it hurts most: unequal parts, in-place states in the second call.
    std::vector<rnnserve_slice> head, tail;
    for (const rnnserve_slice& slice : slices) {
      const int64_t cut = slice.steps / 3;
      if (cut == 0) {
        tail.push_back(slice);
        continue;
      }
      rnnserve_slice part = slice;
      part.steps = cut;
      head.push_back(part);
      part = slice;
      part.x = static_cast<const unsigned char*>(slice.x) + cut * slice.x_stride;
      part.y = static_cast<unsigned char*>(slice.y) + cut * slice.y_stride;
      part.steps -= cut;
      part.before = slice.after;
      tail.push_back(part);
    }
    if (!head.empty()) outcome.code = program.Advance(head);
    if (outcome.code == RNNSERVE_OK) outcome.code = program.Advance(tail);
  }
  if (outcome.code != RNNSERVE_OK) {
    outcome.error = program.error();
    return outcome;
  }
  TakeJumpMargin();
  for (int64_t n = 0; n < batch.rows; ++n) {
    const auto row = static_cast<size_t>(n);
    const int64_t length = batch.lengths[row];
    HostState state = initial[row];
    const std::vector<double> want = RunReference(cell, weights, inputs_of[row], length, state);
    for (const double value : want) outcome.is_unstable = outcome.is_unstable || std::abs(value) > kStableBound;
    for (int64_t k = 0; k < length; ++k) {
      std::vector<double> got(hidden);
      Decode(type, y.At(batch.reverse ? length - 1 - k : k, n), hidden, got.data());
      for (size_t j = 0; j < hidden; ++j)
        outcome.y = std::max(outcome.y, Distance(got[j], want[static_cast<size_t>(k) * hidden + j]));
    }
    const HostState got = after[row]->Export();
    outcome.state = std::max(outcome.state, WorstDistance(got.h, state.h));
    if (cell.kind == RNNSERVE_LSTM) outcome.state = std::max(outcome.state, WorstDistance(got.c, state.c));
  }
  outcome.is_unstable = outcome.is_unstable || TakeJumpMargin() < 1e-3;
  return outcome;
}

std::string Describe(const rnnserve_cell& cell, const Batch& batch) {
  std::string text = "I " + std::to_string(cell.input_size) + " H " + std::to_string(cell.hidden_size) + " N " +
                     std::to_string(batch.rows) + " T " + std::to_string(batch.steps) + " acts";
  for (const rnnserve_activation& a : cell.activations) text.append(" ").append(std::to_string(a.kind));
  return text + (batch.reverse ? " reverse" : "") + (batch.chunked ? " chunked" : "") +
         (batch.initial ? " initial" : "") + (cell.clip < 1e300 ? " clip" : "") +
         (cell.has_peephole ? " peephole" : "") + (cell.input_forget ? " input_forget" : "") +
         (batch.batch_major ? " batch-major" : "");
}

void Count(Tally& tally, const Outcome& outcome, double tolerance, const std::string& what) {
  if (outcome.is_unstable) {
    ++tally.skipped;
    return;
  }
  ++tally.runs;
  tally.y = std::max(tally.y, outcome.y);
  tally.state = std::max(tally.state, outcome.state);
  if (outcome.code == RNNSERVE_OK && outcome.y <= tolerance && outcome.state <= tolerance) return;
  if (tally.failed++ == 0) {
    char distances[80];
    std::snprintf(distances, sizeof distances, " y %.2e state %.2e ", outcome.y, outcome.state);
    tally.first_failure = what + distances + outcome.error;
  }
}

}  // namespace rnnserve::selftest
