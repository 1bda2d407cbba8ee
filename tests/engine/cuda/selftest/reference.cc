// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>

#include "engine/cuda/element.h"
#include "tests/engine/cuda/selftest/selftest.h"

namespace rnnserve::selftest {
namespace {

int passes = 0;
std::vector<std::string> failures;  // by name
std::map<int, double> worst_distances;
double jump_margin = std::numeric_limits<double>::infinity();

// Written from the operator texts, not from cell_math.h.
double Apply(const rnnserve_activation& f, double x) {
  switch (f.kind) {
    case RNNSERVE_RELU:
      return x > 0 || std::isnan(x) ? x : 0.0;
    case RNNSERVE_TANH:
      return std::tanh(x);
    case RNNSERVE_SIGMOID:
      return 0.5 * (1.0 + std::tanh(0.5 * x));
    case RNNSERVE_AFFINE:
      return f.alpha * x + f.beta;
    case RNNSERVE_LEAKY_RELU:
      return x >= 0 ? x : f.alpha * x;
    case RNNSERVE_THRESHOLDED_RELU:
      jump_margin = std::min(jump_margin, std::fabs(x - f.alpha));
      return x >= f.alpha ? x : 0.0;
    case RNNSERVE_SCALED_TANH:
      return f.alpha * std::tanh(f.beta * x);
    case RNNSERVE_HARD_SIGMOID:
      return std::min(std::max(f.alpha * x + f.beta, 0.0), 1.0);
    case RNNSERVE_ELU:
      return x >= 0 ? x : f.alpha * std::expm1(x);
    case RNNSERVE_SOFTSIGN:
      return x / (1.0 + std::fabs(x));
    default:
      return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
  }
}

double Clip(const rnnserve_cell& cell, double x) { return std::min(std::max(x, -cell.clip), cell.clip); }

double Dot(const double* a, const double* b, int64_t count) {
  double sum = 0;
  for (int64_t k = 0; k < count; ++k) sum += a[k] * b[k];
  return sum;
}

}  // namespace

void Report(bool pass, const std::string& name, const char* format, ...) {
  std::printf("%s %s: ", pass ? "PASS" : "FAIL", name.c_str());
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
  std::fflush(stdout);
  if (pass) {
    ++passes;
  } else {
    failures.push_back(name);
  }
}

void Note(const std::string& name, const char* format, ...) {
  std::printf("NOTE %s: ", name.c_str());
  va_list arguments;
  va_start(arguments, format);
  std::vprintf(format, arguments);
  va_end(arguments);
  std::printf("\n");
  std::fflush(stdout);
}

void Measured(int type, double distance) { worst_distances[type] = std::max(worst_distances[type], distance); }

int Failures() { return static_cast<int>(failures.size()); }

void Summarise() {
  std::printf("\n== summary\n");
  for (const auto& [type, distance] : worst_distances) {
    std::printf("worst error, %s: %.2e (allowed %.0e)\n", TypeName(type), distance, Tolerance(type));
  }
  for (const std::string& name : failures) std::printf("FAILED %s\n", name.c_str());
  std::printf("%d passed, %d failed\n", passes, Failures());
}

int64_t Gates(const rnnserve_cell& cell) { return cell.kind == RNNSERVE_LSTM ? 4 : cell.kind == RNNSERVE_GRU ? 3 : 1; }

rnnserve_cell MakeCell(int kind, int64_t inputs, int64_t hidden, int data_type) {
  rnnserve_cell cell{};
  cell.kind = kind;
  cell.input_size = inputs;
  cell.hidden_size = hidden;
  cell.data_type = data_type;
  cell.clip = std::numeric_limits<double>::infinity();
  const auto name = [&](int at, int function) { cell.activations[at] = {0, 0, function, 0}; };
  name(0, kind == RNNSERVE_RNN ? RNNSERVE_TANH : RNNSERVE_SIGMOID);
  name(1, RNNSERVE_TANH);
  name(2, RNNSERVE_TANH);
  if (kind == RNNSERVE_GRU) cell.linear_before_reset = 1;
  return cell;
}

Weights RandomWeights(const rnnserve_cell& cell, std::mt19937& random, double scale) {
  const double bound = scale / std::sqrt(static_cast<double>(cell.hidden_size));
  std::uniform_real_distribution<double> draw(-bound, bound);
  const auto fill = [&](int64_t count) {
    std::vector<double> values(static_cast<size_t>(count));
    for (double& v : values) v = RoundTo(cell.data_type, draw(random));
    return values;
  };
  const int64_t wide = Gates(cell) * cell.hidden_size;
  return {fill(wide * cell.input_size), fill(wide * cell.hidden_size), fill(wide), fill(wide),
          cell.has_peephole ? fill(3 * cell.hidden_size) : std::vector<double>()};
}

std::vector<double> RunReference(const rnnserve_cell& cell, const Weights& weights, const std::vector<double>& x,
                                 int64_t steps, HostState& state) {
  const int64_t inputs = cell.input_size;
  const int64_t hidden = cell.hidden_size;
  const rnnserve_activation *f = &cell.activations[0], *g = &cell.activations[1], *last = &cell.activations[2];
  std::vector<double> y(static_cast<size_t>(steps * hidden));
  std::vector<double> h = state.h;
  for (int64_t t = 0; t < steps; ++t) {
    const double* input = x.data() + t * inputs;
    // Products and biases of block b, unit j, apart.
    const auto wx = [&](int64_t b, int64_t j) {
      return Dot(weights.w.data() + (b * hidden + j) * inputs, input, inputs) +
             weights.wb[static_cast<size_t>(b * hidden + j)];
    };
    const auto rh = [&](int64_t b, int64_t j, const double* v) {
      return Dot(weights.r.data() + (b * hidden + j) * hidden, v, hidden) +
             weights.rb[static_cast<size_t>(b * hidden + j)];
    };
    const double* old = state.h.data();
    std::vector<double> reset(static_cast<size_t>(hidden));
    if (cell.kind == RNNSERVE_GRU) {
      for (int64_t j = 0; j < hidden; ++j) {
        reset[static_cast<size_t>(j)] = Apply(*f, Clip(cell, wx(1, j) + rh(1, j, old)));
        if (!cell.linear_before_reset) reset[static_cast<size_t>(j)] *= old[j];
      }
    }
    for (int64_t j = 0; j < hidden; ++j) {
      const auto at = static_cast<size_t>(j);
      if (cell.kind == RNNSERVE_RNN) {
        h[at] = Apply(*f, Clip(cell, wx(0, j) + rh(0, j, old)));
      } else if (cell.kind == RNNSERVE_GRU) {
        const double z = Apply(*f, Clip(cell, wx(0, j) + rh(0, j, old)));
        const double inner =
            cell.linear_before_reset ? wx(2, j) + reset[at] * rh(2, j, old) : wx(2, j) + rh(2, j, reset.data());
        h[at] = (1 - z) * Apply(*g, Clip(cell, inner)) + z * old[j];
      } else {
        const auto peep = [&](int64_t b, double c) {
          return cell.has_peephole ? weights.p[static_cast<size_t>(b * hidden + j)] * c : 0.0;
        };
        const double c = state.c[at];
        const double i = Apply(*f, Clip(cell, wx(0, j) + rh(0, j, old) + peep(0, c)));
        const double forget = cell.input_forget ? 1 - i : Apply(*f, Clip(cell, wx(2, j) + rh(2, j, old) + peep(2, c)));
        const double n = Apply(*g, Clip(cell, wx(3, j) + rh(3, j, old)));
        state.c[at] = forget * c + i * n;
        const double o = Apply(*f, Clip(cell, wx(1, j) + rh(1, j, old) + peep(1, state.c[at])));
        h[at] = o * Apply(*last, cell.clip_cell_input ? Clip(cell, state.c[at]) : state.c[at]);
      }
    }
    state.h = h;
    std::copy(h.begin(), h.end(), y.begin() + t * hidden);
  }
  return y;
}

double TakeJumpMargin() {
  const double margin = jump_margin;
  jump_margin = std::numeric_limits<double>::infinity();
  return margin;
}

size_t ElementBytes(int type) { return type == RNNSERVE_DOUBLE ? 8 : type == RNNSERVE_FLOAT ? 4 : 2; }

const char* TypeName(int type) {
  return type == RNNSERVE_DOUBLE    ? "float64"
         : type == RNNSERVE_FLOAT   ? "float32"
         : type == RNNSERVE_FLOAT16 ? "float16"
                                    : "bfloat16";
}

double Tolerance(int type) {
  return type == RNNSERVE_DOUBLE ? 1e-12 : type == RNNSERVE_FLOAT ? 1e-5 : type == RNNSERVE_FLOAT16 ? 4e-3 : 3e-2;
}

void Encode(int type, const double* values, size_t count, void* out) {
  auto* bytes = static_cast<unsigned char*>(out);
  for (size_t k = 0; k < count; ++k, bytes += ElementBytes(type)) {
    if (type == RNNSERVE_DOUBLE) {
      std::memcpy(bytes, values + k, 8);
    } else if (type == RNNSERVE_FLOAT) {
      const auto v = static_cast<float>(values[k]);
      std::memcpy(bytes, &v, 4);
    } else if (type == RNNSERVE_FLOAT16) {
      cuda::Half v;
      cuda::Narrow(static_cast<float>(values[k]), v);
      std::memcpy(bytes, &v, 2);
    } else {
      cuda::BFloat16 v;
      cuda::Narrow(static_cast<float>(values[k]), v);
      std::memcpy(bytes, &v, 2);
    }
  }
}

void Decode(int type, const void* in, size_t count, double* values) {
  const auto* bytes = static_cast<const unsigned char*>(in);
  for (size_t k = 0; k < count; ++k, bytes += ElementBytes(type)) {
    if (type == RNNSERVE_DOUBLE) {
      std::memcpy(values + k, bytes, 8);
    } else if (type == RNNSERVE_FLOAT) {
      float v;
      std::memcpy(&v, bytes, 4);
      values[k] = static_cast<double>(v);
    } else if (type == RNNSERVE_FLOAT16) {
      cuda::Half v;
      std::memcpy(&v, bytes, 2);
      values[k] = static_cast<double>(cuda::Widen(v));
    } else {
      cuda::BFloat16 v;
      std::memcpy(&v, bytes, 2);
      values[k] = static_cast<double>(cuda::Widen(v));
    }
  }
}

double RoundTo(int type, double value) {
  unsigned char bytes[8];
  Encode(type, &value, 1, bytes);
  Decode(type, bytes, 1, &value);
  return value;
}

double Distance(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) {
    return std::isnan(a) && std::isnan(b) ? 0.0 : std::numeric_limits<double>::infinity();
  }
  if (a == b) return 0;
  return std::fabs(a - b) / (1.0 + std::fabs(b));
}

double WorstDistance(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = a.size() == b.size() ? 0.0 : std::numeric_limits<double>::infinity();
  for (size_t k = 0; k < a.size() && k < b.size(); ++k) worst = std::max(worst, Distance(a[k], b[k]));
  return worst;
}

}  // namespace rnnserve::selftest
