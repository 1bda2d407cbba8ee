// SPDX-License-Identifier: Apache-2.0
// Facts of cuDNN: what comes out.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/engine/cuda/selftest/fact_checks.h"
#include "tests/engine/cuda/selftest/facts.h"

namespace rnnserve::selftest {

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
    const RnnData same = MakeData(other, 7);
    const RnnResult clipped = RunCudnn(other, same);
    RnnCase plain = other;
    plain.clip = 0;
    Note(std::string("clip, ") + KindName(other), "%s, distance from the cell without clip %.1e", clipped.Why().c_str(),
         Error(plain, clipped, RunExpected(plain, same)));
  }
}

void NotANumber() {
  for (const RnnCase& c : AllCells()) {
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

}  // namespace rnnserve::selftest
