/* SPDX-License-Identifier: Apache-2.0
 * The equations of the fake plugin: every cell in float32 and float64, in plain loops over doubles. State is rounded to
 * the compute type at each step, so that a sequence cut into chunks gives the same bits. */
#ifndef RNNSERVE_TESTS_ENGINE_PLUGIN_FAKE_CELL_H_
#define RNNSERVE_TESTS_ENGINE_PLUGIN_FAKE_CELL_H_

#include "engine/plugin/engine_abi.h"

typedef struct fake_cell {
  rnnserve_cell cell;
  double* weights; /* W, R, Wb, Rb, P one after the other */
  const double *w, *r, *wb, *rb, *p;
} fake_cell;

/* 0 if there is no memory. */
int fake_cell_init(fake_cell* made, const rnnserve_cell* cell, const rnnserve_weights* weights);
void fake_cell_free(fake_cell* made);

size_t fake_cell_gates(const rnnserve_cell* cell);
/* Bytes of an element of the data type, which is the compute type. */
size_t fake_cell_element(const rnnserve_cell* cell);
/* Doubles that a step needs as scratch. */
size_t fake_cell_scratch(const rnnserve_cell* cell);

/* `count` elements of the cell's type from or to memory of any alignment. */
void fake_cell_read(const rnnserve_cell* cell, const void* from, size_t count, double* to);
void fake_cell_write(const rnnserve_cell* cell, const double* from, size_t count, void* to);

/* One step in place: x of I elements in memory, h and c of H values. */
void fake_cell_step(const fake_cell* cell, const void* x, double* h, double* c, double* scratch);

#endif /* RNNSERVE_TESTS_ENGINE_PLUGIN_FAKE_CELL_H_ */
