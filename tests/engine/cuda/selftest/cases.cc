// SPDX-License-Identifier: Apache-2.0
// The operator suite through the C ABI against the host reference.
#include <algorithm>
#include <thread>

#include "tests/engine/cuda/selftest/batch_check.h"
#include "tests/engine/cuda/selftest/plugin.h"

namespace rnnserve::selftest {
namespace {

constexpr int kSizes[] = {1, 7, 17, 36, 128, 256};
constexpr int kTypes[] = {RNNSERVE_FLOAT, RNNSERVE_DOUBLE, RNNSERVE_FLOAT16, RNNSERVE_BFLOAT16};

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

// Cells whose weights fill the processors, and more rows than one of them holds at a time.
void LargeCells(const Engine& engine) {
  struct Size {
    int64_t hidden, rows, steps;
  };
  for (int op = 0; op < 5; ++op) {
    std::mt19937 random(static_cast<unsigned>(op));
    Tally tally;
    for (const Size& size : {Size{512, 70, 4}, {1024, 20, 3}, {768, 9, 5}, {512, 1, 6}, {1024, 2, 4}}) {
      const rnnserve_cell cell = OpCell(op, 40, size.hidden, RNNSERVE_FLOAT);
      const Weights weights = RandomWeights(cell, random);
      Program program(engine, cell, weights);
      Batch batch;
      batch.rows = size.rows;
      batch.steps = size.steps;
      batch.initial = true;
      for (int64_t n = 0; n < size.rows; ++n) batch.lengths.push_back(1 + n % size.steps);
      Count(tally, RunBatch(program, weights, batch, random), Tolerance(RNNSERVE_FLOAT), Describe(cell, batch));
    }
    Measured(RNNSERVE_FLOAT, std::max(tally.y, tally.state));
    Report(tally.failed == 0, std::string("large cells, path resident, ") + OpName(op),
           "%d batches, worst y %.2e, worst state %.2e%s%s", tally.runs, tally.y, tally.state,
           tally.failed ? "; FAILED FIRST AT " : "", tally.first_failure.c_str());
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
        // Gates that leave [0, 1] amplify what rounding has left.
        const double tolerance = type == RNNSERVE_DOUBLE ? 1e-11 : Tolerance(type);
        Count(tally, RunBatch(program, weights, batch, random), tolerance, Describe(cell, batch));
      }
      if (type != RNNSERVE_DOUBLE) Measured(type, std::max(tally.y, tally.state));
      Report(tally.failed == 0,
             std::string("free cells, ") +
                 (kind == RNNSERVE_LSTM  ? "LSTM "
                  : kind == RNNSERVE_GRU ? "GRU "
                                         : "RNN ") +
                 TypeName(type),
             "%d batches (%d unstable ones left out), worst y %.2e, worst state %.2e%s%s", tally.runs, tally.skipped,
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
  for (const char* path : {"general", "resident", "cudnn"}) {
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

void RunResident(const rnnserve_api& api) {
  const Engine resident(api, "resident");
  LargeCells(resident);
  DefaultCells(resident, "resident");
  FreeCells(resident);
}

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
  RunResident(api);
  Blocks(api);
  Budget(api);
}

}  // namespace rnnserve::selftest
