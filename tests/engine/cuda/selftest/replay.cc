// SPDX-License-Identifier: Apache-2.0
// Cases that the ordinary tests have written, on the device.
#include <algorithm>
#include <map>
#include <memory>

#include "tests/engine/cuda/selftest/case_file.h"
#include "tests/engine/cuda/selftest/plugin.h"

namespace rnnserve::selftest {
namespace {

// A slice's own memory: one byte off any alignment, a gap after each step, steps in either order.
class Memory {
 public:
  Memory(int64_t steps, int64_t width, int type, bool reverse)
      : step_(static_cast<std::ptrdiff_t>(static_cast<size_t>(width) * ElementBytes(type))),
        stride_(step_ + 3),
        bytes_(1 + static_cast<size_t>(steps * stride_), 0xee) {
    first_ = bytes_.data() + 1 + (reverse ? (steps - 1) * stride_ : 0);
    if (reverse) stride_ = -stride_;
  }
  unsigned char* At(int64_t step) const { return first_ + step * stride_; }
  std::ptrdiff_t stride() const { return stride_; }
  // Whether everything between the steps is as it was.
  bool GapsUntouched(int64_t steps) const {
    for (int64_t t = 0; t < steps; ++t) {
      const unsigned char* gap = At(t) + step_;
      if (!std::all_of(gap, gap + 3, [](unsigned char byte) { return byte == 0xee; })) return false;
    }
    return bytes_[0] == 0xee;
  }

 private:
  std::ptrdiff_t step_, stride_;
  std::vector<unsigned char> bytes_;
  unsigned char* first_;
};

struct ReplayTally {
  int calls = 0, failed = 0;
  double worst = 0;
  std::string first_failure;
};

// Why the call failed; empty: it didn't. `worst` becomes its largest distance.
std::string Replay(const Engine& engine, const RecordedCall& call, double& worst) {
  Program program(engine, call.cell, {call.w, call.r, call.wb, call.rb, call.p});
  if (program.code() != RNNSERVE_OK) return program.error();
  const int type = call.cell.data_type;
  const auto hidden = static_cast<size_t>(call.cell.hidden_size);
  const size_t x_bytes = static_cast<size_t>(call.cell.input_size) * ElementBytes(type);
  std::vector<Memory> x, y;
  std::vector<std::unique_ptr<State>> states;
  std::vector<rnnserve_slice> slices;
  for (const RecordedSlice& recorded : call.slices) {
    x.emplace_back(recorded.steps, call.cell.input_size, type, recorded.reverse != 0);
    y.emplace_back(recorded.steps, call.cell.hidden_size, type, recorded.reverse != 0);
    for (int64_t t = 0; t < recorded.steps && x_bytes > 0; ++t) {
      std::copy_n(recorded.x.data() + static_cast<size_t>(t) * x_bytes, x_bytes, x.back().At(t));
    }
    states.push_back(std::make_unique<State>(program));
    if (recorded.has_before) states.back()->Import({recorded.h, recorded.c});
    rnnserve_state* const state = states.back()->get();
    slices.push_back({x.back().At(0), x.back().stride(), recorded.wants_y ? y.back().At(0) : nullptr, y.back().stride(),
                      recorded.steps, recorded.has_before ? state : nullptr, state});
  }
  if (program.Advance(slices) != RNNSERVE_OK) return program.error();
  for (size_t k = 0; k < call.slices.size(); ++k) {
    const RecordedSlice& recorded = call.slices[k];
    std::vector<double> step(hidden);
    for (int64_t t = 0; t < recorded.steps && recorded.wants_y; ++t) {
      Decode(type, y[k].At(t), hidden, step.data());
      for (size_t u = 0; u < hidden; ++u) {
        worst = std::max(worst, Distance(step[u], recorded.y[static_cast<size_t>(t) * hidden + u]));
      }
    }
    const HostState after = states[k]->Export();
    worst = std::max(worst, WorstDistance(after.h, recorded.h_after));
    if (call.cell.kind == RNNSERVE_LSTM) worst = std::max(worst, WorstDistance(after.c, recorded.c_after));
    if (!y[k].GapsUntouched(recorded.steps)) return "bytes between outputs were written";
  }
  return worst <= call.tolerance ? "" : "too far off";
}

}  // namespace

void RunReplay(const rnnserve_api& api, const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  std::vector<RecordedCall> calls;
  const std::string why = file != nullptr ? ReadCalls(file, calls) : "it cannot be opened";
  if (file != nullptr) std::fclose(file);
  if (!why.empty() || calls.empty()) {
    Report(false, "cases of " + path, "%s", why.empty() ? "it holds none" : why.c_str());
    return;
  }
  for (const char* way : {"", "general", "resident"}) {
    const Engine engine(api, way);
    std::map<int, ReplayTally> tallies;
    for (const RecordedCall& call : calls) {
      ReplayTally& tally = tallies[call.cell.data_type];
      double worst = 0;
      const std::string failure = Replay(engine, call, worst);
      ++tally.calls;
      tally.worst = std::max(tally.worst, worst);
      Measured(call.cell.data_type, worst);
      if (failure.empty()) continue;
      if (tally.failed++ == 0) tally.first_failure = failure + " at " + call.description;
    }
    for (const auto& [type, tally] : tallies) {
      Report(tally.failed == 0,
             std::string("written cases, path ") + (*way == '\0' ? "auto" : way) + ", " + TypeName(type),
             "%d calls, %d failed, worst %.2e%s%s", tally.calls, tally.failed, tally.worst,
             tally.failed ? "; FAILED FIRST: " : "", tally.first_failure.c_str());
    }
  }
}

}  // namespace rnnserve::selftest
