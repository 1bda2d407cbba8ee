// SPDX-License-Identifier: Apache-2.0
// What is said about cuDNN elsewhere (docs/engines, section cuDNN: read in headers, or measured by third parties), each
// line tried on this device.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>

#include "engine/cuda/selftest/bare_rnn.h"

namespace rnnserve::selftest {
namespace {

const char* KindName(const RnnCase& c) {
  return c.kind == RNNSERVE_LSTM ? "LSTM" : c.kind == RNNSERVE_GRU ? "GRU" : c.relu ? "RNN relu" : "RNN tanh";
}

// Distance over the valid positions of y and over the final states.
double Error(const RnnCase& c, const RnnResult& got, const RnnResult& want) {
  if (!got.ok()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  const auto width = static_cast<size_t>(c.directions * c.hidden);
  for (int t = 0; t < c.steps; ++t) {
    for (int n = 0; n < c.rows; ++n) {
      if (!c.lengths.empty() && t >= c.lengths[static_cast<size_t>(n)]) continue;
      const size_t at = (static_cast<size_t>(t) * static_cast<size_t>(c.rows) + static_cast<size_t>(n)) * width;
      for (size_t k = at; k < at + width; ++k) worst = std::max(worst, Distance(got.y[k], want.y[k]));
    }
  }
  if (!got.h.empty()) worst = std::max(worst, WorstDistance(got.h, want.h));
  if (!got.c.empty()) worst = std::max(worst, WorstDistance(got.c, want.c));
  return worst;
}

// Runs the case and expects the reference's values.
RnnResult ExpectRight(const std::string& name, const RnnCase& c, double tolerance) {
  const RnnData data = MakeData(c, 7);
  const RnnResult got = RunCudnn(c, data);
  const double error = Error(c, got, RunExpected(c, data));
  Report(error <= tolerance, name, "%s, error %.2e (allowed %.0e)", got.Why().c_str(), error, tolerance);
  return got;
}

// Runs the case and expects cuDNN to refuse it; says where and with what.
void ExpectRefused(const std::string& name, const RnnCase& c) {
  const RnnData data = MakeData(c, 7);
  const RnnResult got = RunCudnn(c, data);
  if (got.ok()) {
    Report(false, name, "accepted, error %.2e", Error(c, got, RunExpected(c, data)));
  } else {
    Report(true, name, "refused: %s", got.Why().c_str());
  }
}

RnnCase Case(int kind, bool relu = false) {
  RnnCase c;
  c.kind = kind;
  c.relu = relu;
  return c;
}

std::vector<RnnCase> AllCells() {
  return {Case(RNNSERVE_LSTM), Case(RNNSERVE_GRU), Case(RNNSERVE_RNN), Case(RNNSERVE_RNN, true)};
}

void Mappings() {
  for (RnnCase c : AllCells()) {
    for (const int directions : {1, 2}) {
      c.directions = directions;
      const std::string name =
          std::string("linLayerID mapping, ") + KindName(c) + (directions == 2 ? " bidirectional" : "");
      const RnnResult got = ExpectRight(name, c, 1e-5);
      std::string text;
      for (const size_t at : got.layout) text.append(" ").append(std::to_string(at));
      const bool ascending = std::is_sorted(got.layout.begin(), got.layout.end());
      Note(name,
           "all matrices, then all biases: %s; offsets (elements):%s; weight space %zu bytes; workspace %zu, reserve "
           "%zu",
           ascending ? "yes" : "no", text.c_str(), got.weight_bytes, got.workspace, got.reserve);
      Report(got.reserve == 0, name + ", reserve", "reserve is %zu for inference and NULL was passed", got.reserve);
    }
  }
}

void Types() {
  struct Pair {
    int type;
    cudnnDataType_t precision;
    cudnnMathType_t math;
    const char* name;
    double tolerance;
  };
  const Pair pairs[] = {
      {RNNSERVE_DOUBLE, CUDNN_DATA_DOUBLE, CUDNN_DEFAULT_MATH, "f64/f64", 1e-12},
      {RNNSERVE_FLOAT16, CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH, "f16/f32 tensor", 4e-3},
      {RNNSERVE_BFLOAT16, CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH, "bf16/f32 tensor", 3e-2},
      {RNNSERVE_FLOAT16, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, "f16/f32 default", 4e-3},
      {RNNSERVE_BFLOAT16, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, "bf16/f32 default", 3e-2},
      {RNNSERVE_FLOAT16, CUDNN_DATA_HALF, CUDNN_TENSOR_OP_MATH, "f16/f16 tensor", 4e-3},
  };
  for (const Pair& pair : pairs) {
    RnnCase c;
    c.type = pair.type;
    c.math_precision = pair.precision;
    c.math = pair.math;
    c.steps = 20;
    c.hidden = 64;
    ExpectRight(std::string("types ") + pair.name, c, pair.tolerance);
  }
  struct Math {
    cudnnMathType_t math;
    const char* name;
  };
  double fma_error = 0, worst_other = 0;
  for (RnnCase c : AllCells()) {
    for (const Math math :
         {Math{CUDNN_FMA_MATH, "FMA"}, Math{CUDNN_DEFAULT_MATH, "DEFAULT"}, Math{CUDNN_TENSOR_OP_MATH, "TENSOR_OP"},
          Math{CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION, "TENSOR_OP_ALLOW_CONVERSION"}}) {
      c.inputs = c.hidden = 256;
      c.rows = 32;
      c.steps = 20;
      c.math = math.math;
      const RnnData data = MakeData(c, 11);
      const RnnResult got = RunCudnn(c, data);
      const double error = Error(c, got, RunExpected(c, data));
      Note(std::string("float32 error, ") + KindName(c) + ", " + math.name, "%s %.2e", got.Why().c_str(), error);
      if (math.math == CUDNN_FMA_MATH) fma_error = std::max(fma_error, error);
      if (math.math == CUDNN_DEFAULT_MATH) worst_other = std::max(worst_other, error);
    }
  }
  Report(fma_error <= 1e-5, "FMA_MATH keeps float32", "worst error %.2e at H = 256, T = 20", fma_error);
  Report(worst_other > 1e-5, "DEFAULT_MATH may use TF32", "worst error %.2e with CUDNN_DEFAULT_MATH", worst_other);
}

void Optional() {
  for (RnnCase c : AllCells()) {
    const std::string kind = KindName(c);
    ExpectRight("NULL dropout descriptor, NULL device lengths, " + kind, c, 1e-5);
    RnnCase other = c;
    other.null_dropout = false;
    ExpectRight("dropout descriptor with NULL states, " + kind, other, 1e-5);
    other = c;
    other.initial = false;
    ExpectRight("hx, cx NULL mean zeros, " + kind, other, 1e-5);
    other = c;
    other.final = false;
    ExpectRight("hy, cy NULL mean not wanted, " + kind, other, 1e-5);
    other = c;
    other.alias_states = true;
    ExpectRight("hy = hx in place (nobody says so), " + kind, other, 1e-5);
    other = c;
    other.lengths = {5, 4, 2, 1};
    other.device_lengths = true;
    ExpectRight("device lengths are ignored (all 1 passed), " + kind, other, 1e-5);
    other = c;
    other.capture = true;
    ExpectRight("graph capture and two replays, " + kind, other, 1e-5);
    other.lengths = {5, 4, 2, 1};
    ExpectRight("graph capture, ragged, " + kind, other, 1e-5);
  }
}

void Layouts() {
  for (RnnCase c : AllCells()) {
    for (const int directions : {1, 2}) {
      c.directions = directions;
      const std::string kind = std::string(KindName(c)) + (directions == 2 ? " bidirectional" : "");
      RnnCase ragged = c;
      ragged.lengths = {3, 5, 1, 2};
      ragged.layout = CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED;
      ExpectRight("BATCH_MAJOR_UNPACKED, ragged unsorted, " + kind, ragged, 1e-5);
      ragged.layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED;
      const RnnResult filled = ExpectRight("SEQ_MAJOR_UNPACKED, ragged unsorted, " + kind, ragged, 1e-5);
      if (filled.ok()) {
        double padding = 0;
        const RnnResult want = RunExpected(ragged, MakeData(ragged, 7));
        for (size_t k = 0; k < want.y.size(); ++k) {
          if (want.y[k] == 0) padding = std::max(padding, std::fabs(filled.y[k]));
        }
        Report(padding == 0, "padding fill of zero is written, " + kind, "worst padded value %g", padding);
      }
      ragged.fill = false;
      const RnnResult bare = RunCudnn(ragged, MakeData(ragged, 7));
      if (bare.ok()) {
        size_t kept = 0, padded = 0;
        const auto width = static_cast<size_t>(c.directions * c.hidden);
        for (int t = 0; t < c.steps; ++t) {
          for (int n = 0; n < c.rows; ++n) {
            if (t < ragged.lengths[static_cast<size_t>(n)]) continue;
            for (size_t k = 0; k < width; ++k, ++padded) {
              kept += bare.y[(static_cast<size_t>(t * c.rows + n)) * width + k] == kSentinel;
            }
          }
        }
        Report(kept == padded, "without a fill padded y keeps its content, " + kind, "%zu of %zu values kept", kept,
               padded);
      }
      RnnCase packed = c;
      packed.layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
      packed.lengths = {5, 3, 2, 1};
      packed.flags = CUDNN_RNN_PADDED_IO_DISABLED;
      ExpectRight("SEQ_MAJOR_PACKED, sorted, padded I/O off, " + kind, packed, 1e-5);
      packed.flags = CUDNN_RNN_PADDED_IO_ENABLED;
      const RnnData data = MakeData(packed, 7);
      const RnnResult both = RunCudnn(packed, data);
      Note("SEQ_MAJOR_PACKED with padded I/O on, " + kind, "%s, error %.2e", both.Why().c_str(),
           Error(packed, both, RunExpected(packed, data)));
    }
  }
  RnnCase c;
  c.layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
  c.flags = CUDNN_RNN_PADDED_IO_DISABLED;
  c.lengths = {3, 5, 1, 2};
  ExpectRefused("SEQ_MAJOR_PACKED refuses unsorted lengths", c);
  c = RnnCase{};
  c.lengths = {3, 5, 1, 2};
  c.flags = CUDNN_RNN_PADDED_IO_DISABLED;
  ExpectRefused("ragged, unpacked, without the padded-I/O flag", c);
  c.lengths = {};
  ExpectRight("equal lengths, unpacked, without the padded-I/O flag", c, 1e-5);
}

void Algorithms() {
  struct Algo {
    cudnnRNNAlgo_t algo;
    const char* name;
  };
  for (const Algo algo :
       {Algo{CUDNN_RNN_ALGO_PERSIST_STATIC, "PERSIST_STATIC"}, Algo{CUDNN_RNN_ALGO_PERSIST_DYNAMIC, "PERSIST_DYNAMIC"},
        Algo{CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, "SMALL_H"}}) {
    RnnCase c;
    c.algo = algo.algo;
    c.build_dynamic = algo.algo == CUDNN_RNN_ALGO_PERSIST_DYNAMIC;
    c.inputs = c.hidden = 128;
    c.rows = 8;
    const RnnData data = MakeData(c, 7);
    const RnnResult plain = RunCudnn(c, data);
    Note(std::string(algo.name) + ", float32 LSTM H = 128, N = 8", "%s, error %.2e", plain.Why().c_str(),
         Error(c, plain, RunExpected(c, data)));
    c.lengths = {5, 5, 4, 4, 3, 2, 1, 1};
    ExpectRefused(std::string(algo.name) + " refuses ragged lengths", c);
  }
  RnnCase c;
  c.algo = CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H;
  c.type = RNNSERVE_DOUBLE;
  c.math_precision = CUDNN_DATA_DOUBLE;
  c.math = CUDNN_DEFAULT_MATH;
  ExpectRefused("SMALL_H refuses float64", c);

  for (RnnCase cell : AllCells()) {
    for (const int type : {RNNSERVE_FLOAT, RNNSERVE_FLOAT16, RNNSERVE_BFLOAT16}) {
      for (const Algo algo : {Algo{CUDNN_RNN_ALGO_PERSIST_STATIC, "PERSIST_STATIC"},
                              Algo{CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, "SMALL_H"}}) {
        std::string accepted, wrong;
        std::string last;
        for (const int hidden : {7, 17, 32, 64, 100, 128, 192, 256, 320, 384, 512, 768, 1024}) {
          for (const int rows : {1, 7, 32, 96, 256}) {
            RnnCase one = cell;
            one.type = type;
            one.math = type == RNNSERVE_FLOAT ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH;
            one.algo = algo.algo;
            one.hidden = one.inputs = hidden;
            one.rows = rows;
            one.steps = 3;
            one.final = true;
            const RnnData data = MakeData(one, 3);
            const RnnResult got = RunCudnn(one, data);
            if (!got.ok()) {
              last = got.Why();
              continue;
            }
            const std::string shape = std::to_string(hidden) + "x" + std::to_string(rows);
            accepted += " " + shape;
            if (hidden <= 256 && rows <= 32 && Error(one, got, RunExpected(one, data)) > Tolerance(type))
              wrong += " " + shape;
          }
        }
        const std::string name = std::string(algo.name) + " shapes (H x N), " + KindName(cell) + " " + TypeName(type);
        Note(name, "accepted:%s%s; last refusal: %s", accepted.empty() ? " none" : accepted.c_str(), "",
             last.empty() ? "none" : last.c_str());
        Report(wrong.empty(), name + ", values", "wrong at:%s", wrong.empty() ? " none" : wrong.c_str());
      }
    }
  }
}

// cuDNN's own clip: which reading of it holds.
void Clip() {
  RnnCase c;
  c.clip = 0.2;
  c.steps = 6;
  const RnnData data = MakeData(c, 5);
  const RnnResult got = RunCudnn(c, data);
  RnnCase free = c;
  free.clip = 0;
  const auto hidden = static_cast<size_t>(c.hidden);
  const auto inputs = static_cast<size_t>(c.inputs);
  // The three readings, by one LSTM written out: where the cell is clamped.
  const auto run = [&](bool read, bool store, bool gates) {
    RnnResult want;
    want.y.assign(got.y.size(), 0.0);
    want.h = data.h0;
    want.c = data.c0;
    const auto clamp = [&](double v) { return std::min(std::max(v, -c.clip), c.clip); };
    for (size_t n = 0; n < static_cast<size_t>(c.rows); ++n) {
      HostState state{{data.h0.begin() + static_cast<std::ptrdiff_t>(n * hidden),
                       data.h0.begin() + static_cast<std::ptrdiff_t>((n + 1) * hidden)},
                      {data.c0.begin() + static_cast<std::ptrdiff_t>(n * hidden),
                       data.c0.begin() + static_cast<std::ptrdiff_t>((n + 1) * hidden)}};
      rnnserve_cell cell = data.cell;
      if (gates) cell.clip = c.clip;
      if (read || store) {
        cell.clip = c.clip;
        cell.clip_cell_input = 1;
      }
      for (size_t t = 0; t < static_cast<size_t>(c.steps); ++t) {
        const auto at = static_cast<std::ptrdiff_t>((t * static_cast<size_t>(c.rows) + n) * inputs);
        const std::vector<double> x(data.x.begin() + at, data.x.begin() + at + static_cast<std::ptrdiff_t>(inputs));
        if (read) {
          for (double& v : state.c) v = clamp(v);
        }
        // Without a clip of the gates: compute with an open clip and clamp what h() reads by hand.
        HostState next = state;
        rnnserve_cell open = cell;
        if (!gates) open.clip = std::numeric_limits<double>::infinity();
        std::vector<double> y = RunReference(open, data.weights[0], x, 1, next);
        if (!gates && (read || store)) {
          for (size_t k = 0; k < hidden; ++k) {
            const double raw = std::tanh(next.c[k]);
            const double gate = raw == 0 ? 0 : next.h[k] / raw;
            next.h[k] = gate * std::tanh(clamp(next.c[k]));
            y[k] = next.h[k];
            if (store) next.c[k] = clamp(next.c[k]);
          }
        }
        state = next;
        std::copy(y.begin(), y.end(),
                  want.y.begin() + static_cast<std::ptrdiff_t>((t * static_cast<size_t>(c.rows) + n) * hidden));
      }
      std::copy(state.h.begin(), state.h.end(), want.h.begin() + static_cast<std::ptrdiff_t>(n * hidden));
      std::copy(state.c.begin(), state.c.end(), want.c.begin() + static_cast<std::ptrdiff_t>(n * hidden));
    }
    return want;
  };
  const double read = Error(c, got, run(true, false, false));
  const double store = Error(c, got, run(false, true, false));
  const double both = Error(c, got, run(true, true, false));
  const double gates = Error(c, got, run(false, false, true));
  Report(read <= 1e-5, "clip clamps the cell where it is read, cy unclipped",
         "%s; errors: read %.1e, stored %.1e, both %.1e, ONNX gates %.1e", got.Why().c_str(), read, store, both, gates);
  Report(gates > 1e-3, "clip is not ONNX's clip", "distance from clipping the gates %.1e", gates);
  for (const int kind : {RNNSERVE_GRU, RNNSERVE_RNN}) {
    RnnCase other = Case(kind);
    other.clip = 0.2;
    ExpectRefused(std::string("clip is for LSTM only, ") + KindName(other), other);
  }
}

void Projection() {
  RnnCase c;
  c.projection = 8;
  const RnnResult standard = RunCudnn(c, MakeData(c, 7));
  Report(standard.ok(), "projection: LSTM, STANDARD", "%s", standard.Why().c_str());
  c.algo = CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H;
  ExpectRefused("projection: not with SMALL_H", c);
  RnnCase gru = Case(RNNSERVE_GRU);
  gru.projection = 8;
  ExpectRefused("projection: not for GRU", gru);
}

void NotANumber() {
  for (RnnCase c : AllCells()) {
    RnnData data = MakeData(c, 7);
    data.x[static_cast<size_t>(1 * c.inputs)] = std::numeric_limits<double>::quiet_NaN();  // t = 0, n = 1
    const RnnResult got = RunCudnn(c, data);
    const RnnResult want = RunExpected(c, data);
    size_t swallowed = 0, spread = 0;
    for (size_t k = 0; k < want.y.size() && k < got.y.size(); ++k) {
      swallowed += std::isnan(want.y[k]) && !std::isnan(got.y[k]);
      spread += !std::isnan(want.y[k]) && std::isnan(got.y[k]);
    }
    Report(got.ok() && spread == 0, std::string("NaN stays in its row, ") + KindName(c), "%zu values spoilt", spread);
    Report(got.ok() && swallowed == 0, std::string("NaN is not swallowed, ") + KindName(c), "%zu values lost their NaN",
           swallowed);
  }
}

void Repeatability() {
  for (RnnCase c : AllCells()) {
    c.inputs = c.hidden = 128;
    c.rows = 33;
    const RnnData data = MakeData(c, 9);
    const RnnResult a = RunCudnn(c, data), b = RunCudnn(c, data);
    Report(a.ok() && a.y == b.y, std::string("same call, same bits, ") + KindName(c), "worst distance %.1e",
           WorstDistance(a.y, b.y));
    RnnCase one = c;
    one.rows = 1;
    RnnData first = data;
    for (int t = 0; t < c.steps; ++t) {
      std::copy_n(data.x.begin() + static_cast<std::ptrdiff_t>(t) * c.rows * c.inputs, c.inputs,
                  first.x.begin() + static_cast<std::ptrdiff_t>(t) * c.inputs);
    }
    first.x.resize(static_cast<size_t>(c.steps * c.inputs));
    first.h0.resize(static_cast<size_t>(c.hidden));
    first.c0.resize(static_cast<size_t>(c.hidden));
    const RnnResult alone = RunCudnn(one, first);
    double worst = 0;
    for (int k = 0; alone.ok() && a.ok() && k < c.hidden; ++k)
      worst = std::max(worst, Distance(alone.y[static_cast<size_t>(k)], a.y[static_cast<size_t>(k)]));
    Note(std::string("row 0 alone against row 0 of 33, ") + KindName(c), "distance %.1e%s", worst,
         worst == 0 ? " (same bits)" : "");
  }
}

void TemporarySpace() {
  for (const int steps : {1, 100, 1000}) {
    RnnCase c;
    c.inputs = c.hidden = 256;
    c.rows = 16;
    c.steps = steps;
    const RnnResult got = RunCudnn(c, MakeData(c, 1));
    Note("workspace, LSTM H = 256, N = 16, T = " + std::to_string(steps), "%s, %.2f MB", got.Why().c_str(),
         static_cast<double>(got.workspace) / 1e6);
  }
}

// What may leave the context broken runs in a process of its own.
void ZeroSizes() {
  for (RnnCase c : AllCells()) {
    RnnCase mixed = c;
    mixed.lengths = {5, 0, 2, 0};
    const RnnData data = MakeData(mixed, 7);
    const RnnResult got = RunCudnn(mixed, data);
    RnnResult want = RunExpected(mixed, data);
    const double error = Error(mixed, got, want);
    double h_of_empty = 0;
    for (int k = 0; got.ok() && k < c.hidden; ++k)
      h_of_empty = std::max(
          h_of_empty, std::fabs(got.h[static_cast<size_t>(c.hidden + k)] - data.h0[static_cast<size_t>(c.hidden + k)]));
    Note(std::string("length 0 among others, ") + KindName(c), "%s, error %.2e, final h of the empty row is %s",
         got.Why().c_str(), error,
         !got.ok()         ? "-"
         : h_of_empty == 0 ? "its initial h"
                           : "something else");
    RnnCase packed = mixed;
    packed.lengths = {5, 2, 0, 0};
    packed.layout = CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
    packed.flags = CUDNN_RNN_PADDED_IO_DISABLED;
    const RnnData packed_data = MakeData(packed, 7);
    const RnnResult packed_got = RunCudnn(packed, packed_data);
    Note(std::string("length 0 among others, packed, ") + KindName(c), "%s, error %.2e", packed_got.Why().c_str(),
         Error(packed, packed_got, RunExpected(packed, packed_data)));
    RnnCase none = c;
    none.lengths = {0, 0, 0, 0};
    const RnnResult empty = RunCudnn(none, MakeData(none, 7));
    Report(!empty.ok(), std::string("all lengths 0 are refused, ") + KindName(c), "%s", empty.Why().c_str());
    const RnnResult after = RunCudnn(c, MakeData(c, 7));
    Report(after.ok(), std::string("the context survives it, ") + KindName(c), "%s", after.Why().c_str());
  }
  for (const char* what : {"T", "N", "I"}) {
    RnnCase c;
    (what[0] == 'T' ? c.steps : what[0] == 'N' ? c.rows : c.inputs) = 0;
    const RnnResult got = RunCudnn(c, MakeData(c, 7));
    Report(!got.ok(), std::string(what) + " = 0 is refused", "%s", got.Why().c_str());
  }
}

void Costs() {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto us = [](auto from, auto to) { return std::chrono::duration<double, std::micro>(to - from).count(); };
  cudnnHandle_t handle = nullptr;
  auto begin = now();
  cudnnCreate(&handle);
  const double create = us(begin, now());
  cudnnRNNDescriptor_t desc = nullptr;
  cudnnCreateRNNDescriptor(&desc);
  begin = now();
  for (int k = 0; k < 100; ++k) {
    cudnnSetRNNDescriptor_v8(desc, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL,
                             CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, 128, 128, 128, 1,
                             nullptr, CUDNN_RNN_PADDED_IO_ENABLED);
  }
  const double set = us(begin, now()) / 100;
  cudnnRNNDataDescriptor_t data = nullptr;
  cudnnCreateRNNDataDescriptor(&data);
  const std::vector<int> lengths(64, 100);
  begin = now();
  for (int k = 0; k < 100; ++k) {
    cudnnSetRNNDataDescriptor(data, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, 100, 64, 128,
                              lengths.data(), nullptr);
  }
  const double set_data = us(begin, now()) / 100;
  size_t workspace = 0, reserve = 0;
  begin = now();
  for (int k = 0; k < 100; ++k)
    cudnnGetRNNTempSpaceSizes(handle, desc, CUDNN_FWD_MODE_INFERENCE, data, &workspace, &reserve);
  const double sizes = us(begin, now()) / 100;
  Note("host costs",
       "cudnnCreate %.0f us; cudnnSetRNNDescriptor_v8 %.2f us; cudnnSetRNNDataDescriptor %.2f us (T = 100, N = 64); "
       "cudnnGetRNNTempSpaceSizes %.2f us",
       create, set, set_data, sizes);
  cudnnDestroyRNNDataDescriptor(data);
  cudnnDestroyRNNDescriptor(desc);
  cudnnDestroy(handle);
}

}  // namespace

void RunFacts() {
  Mappings();
  Types();
  Optional();
  Layouts();
  Algorithms();
  Clip();
  Projection();
  NotANumber();
  Repeatability();
  TemporarySpace();
  Costs();
}

void RunRiskyFacts() { ZeroSizes(); }

}  // namespace rnnserve::selftest
