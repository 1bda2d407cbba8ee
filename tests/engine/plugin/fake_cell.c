/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/engine/plugin/fake_cell.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Written so that NaN takes the branch that returns it. */
static double activate(const rnnserve_activation* function, double v) {
  const double alpha = function->alpha, beta = function->beta;
  double line;
  switch (function->kind) {
    case RNNSERVE_RELU:
      return v <= 0 ? 0 : v;
    case RNNSERVE_TANH:
      return tanh(v);
    case RNNSERVE_SIGMOID:
      return v < 0 ? exp(v) / (1 + exp(v)) : 1 / (1 + exp(-v));
    case RNNSERVE_AFFINE:
      return alpha * v + beta;
    case RNNSERVE_LEAKY_RELU:
      return v < 0 ? alpha * v : v;
    case RNNSERVE_THRESHOLDED_RELU:
      return v < alpha ? 0 : v;
    case RNNSERVE_SCALED_TANH:
      return alpha * tanh(beta * v);
    case RNNSERVE_HARD_SIGMOID:
      line = alpha * v + beta;
      return line < 0 ? 0 : line > 1 ? 1 : line;
    case RNNSERVE_ELU:
      return v < 0 ? alpha * expm1(v) : v;
    case RNNSERVE_SOFTSIGN:
      return isinf(v) ? (v < 0 ? -1 : 1) : v / (1 + fabs(v));
    default: /* RNNSERVE_SOFTPLUS */
      return isnan(v) ? v : (v < 0 ? 0 : v) + log1p(exp(-fabs(v)));
  }
}

static double clamp(double v, double bound) { return v < -bound ? -bound : v > bound ? bound : v; }

size_t fake_cell_gates(const rnnserve_cell* cell) {
  return cell->kind == RNNSERVE_LSTM ? 4 : cell->kind == RNNSERVE_GRU ? 3 : 1;
}
size_t fake_cell_element(const rnnserve_cell* cell) {
  return cell->data_type == RNNSERVE_DOUBLE ? sizeof(double) : sizeof(float);
}
size_t fake_cell_scratch(const rnnserve_cell* cell) {
  return (2 * fake_cell_gates(cell) + 1) * (size_t)cell->hidden_size + (size_t)cell->input_size;
}

void fake_cell_read(const rnnserve_cell* cell, const void* from, size_t count, double* to) {
  for (size_t k = 0; k < count; ++k) {
    if (cell->data_type == RNNSERVE_DOUBLE) {
      memcpy(&to[k], (const char*)from + k * sizeof(double), sizeof(double));
    } else {
      float value;
      memcpy(&value, (const char*)from + k * sizeof value, sizeof value);
      to[k] = (double)value;
    }
  }
}

void fake_cell_write(const rnnserve_cell* cell, const double* from, size_t count, void* to) {
  for (size_t k = 0; k < count; ++k) {
    if (cell->data_type == RNNSERVE_DOUBLE) {
      memcpy((char*)to + k * sizeof(double), &from[k], sizeof(double));
    } else {
      const float value = (float)from[k];
      memcpy((char*)to + k * sizeof value, &value, sizeof value);
    }
  }
}

int fake_cell_init(fake_cell* made, const rnnserve_cell* cell, const rnnserve_weights* weights) {
  const size_t hidden = (size_t)cell->hidden_size, wide = fake_cell_gates(cell) * hidden;
  const struct {
    const void* from;
    size_t count;
    const double** part;
  } parts[] = {{weights->w, wide * (size_t)cell->input_size, &made->w},
               {weights->r, wide * hidden, &made->r},
               {weights->wb, wide, &made->wb},
               {weights->rb, wide, &made->rb},
               {weights->p, cell->has_peephole ? 3 * hidden : 0, &made->p}};
  size_t total = 0;
  for (size_t k = 0; k < 5; ++k) total += parts[k].count;
  made->cell = *cell;
  made->weights = malloc(total * sizeof(double));
  if (made->weights == NULL) return 0;
  double* at = made->weights;
  for (size_t k = 0; k < 5; ++k) {
    fake_cell_read(cell, parts[k].from, parts[k].count, at);
    *parts[k].part = at;
    at += parts[k].count;
  }
  return 1;
}

void fake_cell_free(fake_cell* made) { free(made->weights); }

/* out[k] = bias[k] + row k of `matrix` times `in`. */
static void product(const double* matrix, const double* bias, const double* in, size_t rows, size_t inner,
                    double* out) {
  for (size_t k = 0; k < rows; ++k) {
    out[k] = bias[k];
    for (size_t j = 0; j < inner; ++j) out[k] += matrix[k * inner + j] * in[j];
  }
}

static void lstm_unit(const fake_cell* cell, size_t u, const double* x, const double* r, double* h, double* c) {
  const rnnserve_cell* e = &cell->cell;
  const size_t hidden = (size_t)e->hidden_size;
  const double old = c[u];
  double i = x[u] + r[u], o = x[hidden + u] + r[hidden + u], f = x[2 * hidden + u] + r[2 * hidden + u];
  const double n = activate(&e->activations[1], clamp(x[3 * hidden + u] + r[3 * hidden + u], e->clip));
  if (e->has_peephole) {
    i += cell->p[u] * old;
    f += cell->p[2 * hidden + u] * old;
  }
  i = activate(&e->activations[0], clamp(i, e->clip));
  f = e->input_forget ? 1 - i : activate(&e->activations[0], clamp(f, e->clip));
  c[u] = f * old + i * n;
  if (e->has_peephole) o += cell->p[hidden + u] * c[u];
  o = activate(&e->activations[0], clamp(o, e->clip));
  h[u] = o * activate(&e->activations[2], e->clip_cell_input ? clamp(c[u], e->clip) : c[u]);
}

static void gru_units(const fake_cell* cell, const double* x, const double* r, double* reset, double* h) {
  const rnnserve_cell* e = &cell->cell;
  const size_t hidden = (size_t)e->hidden_size;
  for (size_t u = 0; u < hidden; ++u) {
    const double gate = activate(&e->activations[0], clamp(x[hidden + u] + r[hidden + u], e->clip));
    reset[u] = e->linear_before_reset ? gate * r[2 * hidden + u] : gate * h[u];
  }
  for (size_t u = 0; u < hidden; ++u) {
    double n = x[2 * hidden + u];
    if (e->linear_before_reset) {
      n += reset[u];
    } else {
      double sum;
      product(cell->r + (2 * hidden + u) * hidden, cell->rb + 2 * hidden + u, reset, 1, hidden, &sum);
      n += sum;
    }
    n = activate(&e->activations[1], clamp(n, e->clip));
    const double z = activate(&e->activations[0], clamp(x[u] + r[u], e->clip));
    h[u] = (1 - z) * n + z * h[u];
  }
}

static void round_state(const rnnserve_cell* cell, double* values) {
  if (cell->data_type == RNNSERVE_DOUBLE) return;
  for (int64_t u = 0; u < cell->hidden_size; ++u) values[u] = (double)(float)values[u];
}

void fake_cell_step(const fake_cell* cell, const void* x, double* h, double* c, double* scratch) {
  const rnnserve_cell* e = &cell->cell;
  const size_t hidden = (size_t)e->hidden_size, inputs = (size_t)e->input_size, wide = fake_cell_gates(e) * hidden;
  double* from_x = scratch;
  double* from_h = from_x + wide;
  double* reset = from_h + wide;
  double* wide_x = reset + hidden;
  fake_cell_read(e, x, inputs, wide_x);
  product(cell->w, cell->wb, wide_x, wide, inputs, from_x);
  product(cell->r, cell->rb, h, wide, hidden, from_h);
  if (e->kind == RNNSERVE_LSTM) {
    for (size_t u = 0; u < hidden; ++u) lstm_unit(cell, u, from_x, from_h, h, c);
    round_state(e, c);
  } else if (e->kind == RNNSERVE_GRU) {
    gru_units(cell, from_x, from_h, reset, h);
  } else {
    for (size_t u = 0; u < hidden; ++u) {
      h[u] = activate(&e->activations[0], clamp(from_x[u] + from_h[u], e->clip));
    }
  }
  round_state(e, h);
}
