// SPDX-License-Identifier: Apache-2.0
// The operator suite through the C ABI against the host reference.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <thread>

#include "engine/cuda/selftest/plugin.h"

namespace rnnserve::selftest {
namespace {

constexpr int kSizes[] = {1, 7, 17, 33, 128, 256};
constexpr int kTypes[] = {RNNSERVE_FLOAT, RNNSERVE_DOUBLE, RNNSERVE_FLOAT16, RNNSERVE_BFLOAT16};

// A batch of ragged sequences, laid out as an operator's tensors would be.
struct Batch {
  int64_t rows = 1, steps = 1;
  bool batch_major = false;
  bool reverse = false;
  bool initial = false;
  bool chunked = false;  // two calls with the state kept on the device
  std::vector<int64_t> lengths;
};

struct Outcome {
  int code = RNNSERVE_OK;
  std::string error;
  double y = 0, state = 0;  // distances from the reference
  bool near_jump = false;
};

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
  outcome.near_jump = TakeJumpMargin() < 1e-3;
  return outcome;
}

struct Tally {
  int runs = 0, failed = 0, skipped = 0;
  double y = 0, state = 0;
  std::string first_failure;
};

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
  if (outcome.near_jump) {
    ++tally.skipped;  // ThresholdedRelu within rounding of its jump: both values are right
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

template <typename T>
T Pick(std::mt19937& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

Batch RandomBatch(std::mt19937& random) {
  Batch batch;
  batch.rows = Pick<int64_t>(random, {1, 2, 5, 16, 33});
  batch.steps = Pick<int64_t>(random, {1, 2, 7, 19});
  batch.batch_major = random() % 2;
  batch.reverse = random() % 2;
  batch.initial = random() % 2;
  batch.chunked = random() % 3 == 0;
  const bool ragged = random() % 2;
  for (int64_t n = 0; n < batch.rows; ++n) {
    batch.lengths.push_back(ragged ? 1 + static_cast<int64_t>(random() % static_cast<unsigned>(batch.steps))
                                   : batch.steps);
  }
  return batch;
}

rnnserve_activation RandomActivation(std::mt19937& random) {
  const int kind = static_cast<int>(random() % 11);
  std::uniform_real_distribution<double> draw(0.1, 0.9);
  const auto parameter = [&] { return static_cast<double>(static_cast<float>(draw(random))); };
  switch (kind) {
    case RNNSERVE_AFFINE:
    case RNNSERVE_SCALED_TANH:
    case RNNSERVE_HARD_SIGMOID:
      return {parameter(), parameter(), kind, 0};
    case RNNSERVE_LEAKY_RELU:
    case RNNSERVE_THRESHOLDED_RELU:
    case RNNSERVE_ELU:
      return {parameter(), 0, kind, 0};
    default:
      return {0, 0, kind, 0};
  }
}

const char* OpName(int op) {
  return op == 0 ? "LSTM" : op == 1 ? "GRU lbr=1" : op == 2 ? "GRU lbr=0" : op == 3 ? "RNN tanh" : "RNN relu";
}

rnnserve_cell OpCell(int op, int64_t inputs, int64_t hidden, int type) {
  rnnserve_cell cell = MakeCell(op == 0 ? RNNSERVE_LSTM : op <= 2 ? RNNSERVE_GRU : RNNSERVE_RNN, inputs, hidden, type);
  if (op == 2) cell.linear_before_reset = 0;
  if (op == 4) cell.activations[0].kind = RNNSERVE_RELU;
  return cell;
}

// The default cells on every path, all types and sizes.
void DefaultCells(const Engine& engine, const std::string& path) {
  for (const int type : kTypes) {
    for (int op = 0; op < 5; ++op) {
      if (path == "cudnn" && op == 2) continue;
      std::mt19937 random(static_cast<unsigned>(100 * type + op));
      Tally tally;
      for (const int hidden : kSizes) {
        for (const int inputs : kSizes) {
          if (hidden * inputs > 33 * 128 && hidden != inputs) continue;
          const rnnserve_cell cell = OpCell(op, inputs, hidden, type);
          const Weights weights = RandomWeights(cell, random);
          Program program(engine, cell, weights);
          Outcome outcome{program.code(), program.error()};
          for (int k = 0; k < 3 && program.code() == RNNSERVE_OK; ++k) {
            const Batch batch = RandomBatch(random);
            Count(tally, RunBatch(program, weights, batch, random), Tolerance(type), Describe(cell, batch));
          }
          if (outcome.code != RNNSERVE_OK) Count(tally, outcome, 0, "program_create");
        }
      }
      Measured(type, std::max(tally.y, tally.state));
      Report(tally.failed == 0,
             "cells, path " + (path.empty() ? "auto" : path) + ", " + OpName(op) + " " + TypeName(type),
             "%d batches, worst y %.2e, worst state %.2e%s%s", tally.runs, tally.y, tally.state,
             tally.failed ? "; FAILED FIRST AT " : "", tally.first_failure.c_str());
    }
  }
}

// Everything that only the general path has.
void FreeCells(const Engine& engine) {
  for (const int type : kTypes) {
    for (const int kind : {RNNSERVE_LSTM, RNNSERVE_GRU, RNNSERVE_RNN}) {
      std::mt19937 random(static_cast<unsigned>(1000 * type + kind));
      Tally tally;
      for (int k = 0; k < 120; ++k) {
        rnnserve_cell cell = MakeCell(kind, kSizes[random() % 5], kSizes[random() % 5], type);
        if (random() % 12 == 0) cell.input_size = 0;
        for (rnnserve_activation& activation : cell.activations) {
          if (random() % 2) activation = RandomActivation(random);
        }
        if (random() % 2) cell.clip = Pick<double>(random, {0.1, 0.5, 2.0});
        if (kind == RNNSERVE_LSTM) {
          cell.has_peephole = random() % 2;
          cell.input_forget = random() % 3 == 0;
          cell.clip_cell_input = cell.clip < 1e300 && random() % 2;
        } else if (kind == RNNSERVE_GRU) {
          cell.linear_before_reset = random() % 2;
        }
        const Weights weights = RandomWeights(cell, random, 0.5);
        Program program(engine, cell, weights);
        if (program.code() != RNNSERVE_OK) {
          Count(tally, {program.code(), program.error()}, 0, "program_create");
          continue;
        }
        const Batch batch = RandomBatch(random);
        Count(tally, RunBatch(program, weights, batch, random), Tolerance(type), Describe(cell, batch));
      }
      Measured(type, std::max(tally.y, tally.state));
      Report(tally.failed == 0,
             std::string("free cells, ") +
                 (kind == RNNSERVE_LSTM  ? "LSTM "
                  : kind == RNNSERVE_GRU ? "GRU "
                                         : "RNN ") +
                 TypeName(type),
             "%d batches (%d near a jump left out), worst y %.2e, worst state %.2e%s%s", tally.runs, tally.skipped,
             tally.y, tally.state, tally.failed ? "; FAILED FIRST AT " : "", tally.first_failure.c_str());
    }
  }
}

void ReducedPrecision(const Engine& engine) {
  for (const int type : {RNNSERVE_FLOAT, RNNSERVE_FLOAT16, RNNSERVE_BFLOAT16}) {
    std::mt19937 random(static_cast<unsigned>(type));
    Tally tally;
    for (int op = 0; op < 5; ++op) {
      for (const int hidden : {17, 33, 128, 256}) {
        rnnserve_cell cell = OpCell(op, hidden, hidden, type);
        cell.allow_reduced_precision = 1;
        const Weights weights = RandomWeights(cell, random);
        Program program(engine, cell, weights);
        const Batch batch = RandomBatch(random);
        Count(tally,
              program.code() == RNNSERVE_OK ? RunBatch(program, weights, batch, random)
                                            : Outcome{program.code(), program.error()},
              type == RNNSERVE_FLOAT ? 4e-3 : Tolerance(type), Describe(cell, batch));
      }
    }
    Report(tally.failed == 0, std::string("reduced precision allowed, ") + TypeName(type),
           "%d batches, worst y %.2e, worst state %.2e%s%s", tally.runs, tally.y, tally.state,
           tally.failed ? "; FAILED FIRST AT " : "", tally.first_failure.c_str());
  }
}

// A budget so small that batches are cut into many blocks, in time and in rows.
void Blocks(const rnnserve_api& api) {
  for (const char* path : {"general", "cudnn"}) {
    const Engine engine(api, path, int64_t{96} << 20);
    std::mt19937 random(5);
    for (const bool ragged : {false, true}) {
      const rnnserve_cell cell = OpCell(0, 33, 64, RNNSERVE_FLOAT);
      const Weights weights = RandomWeights(cell, random);
      Program program(engine, cell, weights);
      for (const auto& [rows, steps] : {std::pair<int64_t, int64_t>{2, 4096}, {3000, 3}}) {
        Batch batch;
        batch.rows = rows;
        batch.steps = steps;
        batch.initial = true;
        for (int64_t n = 0; n < rows; ++n)
          batch.lengths.push_back(ragged ? 1 + static_cast<int64_t>(random() % static_cast<unsigned>(steps)) : steps);
        const Outcome outcome = RunBatch(program, weights, batch, random);
        Report(outcome.code == RNNSERVE_OK && outcome.y <= 1e-5 && outcome.state <= 1e-5,
               std::string("blocks, path ") + path + (ragged ? ", ragged" : "") + ", N " + std::to_string(rows) +
                   " T " + std::to_string(steps),
               "y %.2e state %.2e %s", outcome.y, outcome.state, outcome.error.c_str());
      }
    }
    rnnserve_device_info info{};
    char error[256] = {};
    api.device_info(engine.get(), &info, error, sizeof error);
    Report(info.memory_in_use_bytes <= info.memory_limit_bytes, std::string("the budget held, path ") + path,
           "%.1f of %.1f MB", static_cast<double>(info.memory_in_use_bytes) / 1e6,
           static_cast<double>(info.memory_limit_bytes) / 1e6);
  }
}

void Budget(const rnnserve_api& api) {
  const Engine engine(api, "", int64_t{40} << 20);
  std::mt19937 random(6);
  const rnnserve_cell cell = OpCell(0, 2048, 2048, RNNSERVE_FLOAT);
  Program program(engine, cell, RandomWeights(cell, random));
  Report(program.code() == RNNSERVE_RESOURCE_EXHAUSTED, "a program above the budget", "code %d: %s", program.code(),
         program.error());
  const rnnserve_cell small = OpCell(0, 16, 16, RNNSERVE_FLOAT);
  const Weights weights = RandomWeights(small, random);
  Program fits(engine, small, weights);
  const Batch batch{2, 2, false, false, false, false, {2, 1}};
  const Outcome outcome =
      fits.code() == RNNSERVE_OK ? RunBatch(fits, weights, batch, random) : Outcome{fits.code(), fits.error()};
  Report(outcome.code == RNNSERVE_OK && outcome.y <= 1e-5, "a small one still runs afterwards", "y %.2e %s", outcome.y,
         outcome.error.c_str());
}

void Threads(const Engine& engine) {
  std::mt19937 random(8);
  const rnnserve_cell cell = OpCell(0, 64, 128, RNNSERVE_FLOAT);
  const Weights weights = RandomWeights(cell, random);
  Program program(engine, cell, weights);
  std::vector<Outcome> outcomes(4);
  std::vector<std::thread> threads;
  for (size_t k = 0; k < outcomes.size(); ++k) {
    threads.emplace_back([&, k] {
      // One workspace a thread: a Program of this test holds one, so each thread brings its own over the same weights.
      std::mt19937 own(static_cast<unsigned>(k));
      rnnserve_workspace* workspace = nullptr;
      char error[256] = {};
      program.api().workspace_create(program.get(), &workspace, error, sizeof error);
      const size_t inputs = 64, hidden = 128, steps = 5;
      for (int round = 0; round < 50; ++round) {
        const size_t rows = 1 + own() % 20;
        std::uniform_real_distribution<float> draw(-1, 1);
        std::vector<float> x(rows * steps * inputs), y(rows * steps * hidden);
        for (float& v : x) v = draw(own);
        std::vector<std::unique_ptr<State>> states;
        std::vector<rnnserve_slice> slices;
        for (size_t n = 0; n < rows; ++n) {
          states.push_back(std::make_unique<State>(program));
          slices.push_back({x.data() + n * steps * inputs, inputs * 4, y.data() + n * steps * hidden, hidden * 4, steps,
                            nullptr, states.back()->get()});
        }
        const int code =
            program.api().advance(program.get(), slices.data(), slices.size(), workspace, error, sizeof error);
        if (code != RNNSERVE_OK) outcomes[k] = {code, error};
        HostState state{std::vector<double>(hidden, 0.0), std::vector<double>(hidden, 0.0)};
        const size_t last = rows - 1;
        const std::vector<double> row(x.begin() + static_cast<std::ptrdiff_t>(last * steps * inputs), x.end());
        const std::vector<double> want = RunReference(cell, weights, row, steps, state);
        for (size_t j = 0; j < want.size(); ++j) {
          outcomes[k].y = std::max(outcomes[k].y, Distance(static_cast<double>(y[last * steps * hidden + j]), want[j]));
        }
      }
      program.api().workspace_destroy(workspace);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t k = 0; k < outcomes.size(); ++k) {
    Report(outcomes[k].code == RNNSERVE_OK && outcomes[k].y <= 1e-5,
           "thread " + std::to_string(k) + " of 4 on one program", "50 calls, worst y %.2e %s", outcomes[k].y,
           outcomes[k].error.c_str());
  }
}

void States(const Engine& engine) {
  for (const int type : kTypes) {
    std::mt19937 random(9);
    const rnnserve_cell cell = OpCell(0, 5, 33, type);
    Program program(engine, cell, RandomWeights(cell, random));
    State state(program);
    HostState values{std::vector<double>(33), std::vector<double>(33)};
    const int compute = type == RNNSERVE_DOUBLE ? RNNSERVE_DOUBLE : RNNSERVE_FLOAT;
    for (size_t k = 0; k < 33; ++k) {
      values.h[k] = RoundTo(compute, 0.1 * static_cast<double>(k) - 1.0 / 3);
      values.c[k] = RoundTo(compute, 1.0 / (static_cast<double>(k) + 3));
    }
    state.Import(values);
    const HostState back = state.Export();
    Report(back.h == values.h && back.c == values.c, std::string("import, export is exact, ") + TypeName(type),
           "distance %.1e %.1e", WorstDistance(back.h, values.h), WorstDistance(back.c, values.c));
  }
  rnnserve_cell cell = OpCell(0, 5, 33, RNNSERVE_FLOAT);
  cell.deterministic = 1;
  char error[512] = {};
  const int code = engine.api().supports(engine.get(), &cell, error, sizeof error);
  Report(code == RNNSERVE_UNIMPLEMENTED && error[0] != 0, "deterministic is refused in words", "%s", error);
}

}  // namespace

void RunCases(const rnnserve_api& api) {
  {
    const Engine automatic(api, ""), general(api, "general"), cudnn(api, "cudnn");
    rnnserve_device_info info{};
    char error[256] = {};
    api.device_info(automatic.get(), &info, error, sizeof error);
    Note("device", "%s; %s; %.1f GB, budget %.1f GB", info.name, info.versions,
         static_cast<double>(info.memory_total_bytes) / 1e9, static_cast<double>(info.memory_limit_bytes) / 1e9);
    DefaultCells(automatic, "");
    DefaultCells(general, "general");
    DefaultCells(cudnn, "cudnn");
    FreeCells(automatic);
    ReducedPrecision(automatic);
    Threads(automatic);
    States(automatic);
  }
  Blocks(api);
  Budget(api);
}

}  // namespace rnnserve::selftest
