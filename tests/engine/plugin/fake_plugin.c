/* SPDX-License-Identifier: Apache-2.0
 * A plugin in plain C: an engine "fake" that runs every cell in float32 and float64, and has the fault that the
 * environment variable RNNSERVE_FAKE_PLUGIN names. The fault is read at every handshake and at every open, and stays
 * with what was opened. Faults called "later" begin once the file exists that RNNSERVE_FAKE_PLUGIN_TRIGGER named at
 * open, so that a test can choose the moment from another process. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/plugin/engine_abi.h"
#include "tests/engine/plugin/fake_cell.h"

enum { kMemoryLimit = 1 << 20, kMaxFault = 32, kMaxPath = 1024 };

struct rnnserve_engine {
  char fault[kMaxFault];
  char trigger[kMaxPath];
  pthread_mutex_t mutex;
  int32_t healthy; /* guarded by mutex */
};

struct rnnserve_program {
  rnnserve_engine* engine;
  fake_cell cell;
};

struct rnnserve_state {
  double* h;         /* then c, [2H] in all */
  int32_t on_device; /* written by advance: gone with the device */
};

struct rnnserve_workspace {
  double* scratch;
};

/* For the fault "slow": advance waits until the test says go. */
static struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int waiting;
  int released;
} gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};

/* What is alive, for leaks: engines, programs, states and workspaces together. */
static struct {
  pthread_mutex_t mutex;
  int count;
} alive = {PTHREAD_MUTEX_INITIALIZER, 0};

static void count_alive(int change) {
  pthread_mutex_lock(&alive.mutex);
  alive.count += change;
  pthread_mutex_unlock(&alive.mutex);
}

/* Found by the test with dlsym. */
int fake_plugin_alive(void);
void fake_plugin_await_slow(void);
void fake_plugin_release(void);

int fake_plugin_alive(void) {
  pthread_mutex_lock(&alive.mutex);
  const int count = alive.count;
  pthread_mutex_unlock(&alive.mutex);
  return count;
}
void fake_plugin_await_slow(void) {
  pthread_mutex_lock(&gate.mutex);
  while (!gate.waiting) pthread_cond_wait(&gate.changed, &gate.mutex);
  pthread_mutex_unlock(&gate.mutex);
}
void fake_plugin_release(void) {
  pthread_mutex_lock(&gate.mutex);
  gate.released = 1;
  pthread_cond_broadcast(&gate.changed);
  pthread_mutex_unlock(&gate.mutex);
}

static const char* fault_wanted(void) {
  const char* fault = getenv("RNNSERVE_FAKE_PLUGIN");
  return fault == NULL ? "" : fault;
}
static int has(const rnnserve_engine* engine, const char* fault) { return strcmp(engine->fault, fault) == 0; }
static int has_by_now(const rnnserve_engine* engine, const char* fault) {
  return has(engine, fault) && access(engine->trigger, F_OK) == 0;
}
static int is_healthy(rnnserve_engine* engine) {
  pthread_mutex_lock(&engine->mutex);
  const int healthy = engine->healthy;
  pthread_mutex_unlock(&engine->mutex);
  return healthy;
}

static int32_t fail(int32_t code, const char* text, char* error, size_t error_size) {
  snprintf(error, error_size, "%s", text);
  return code;
}

static int32_t fake_open(const rnnserve_engine_options* options, rnnserve_engine** engine, char* error,
                         size_t error_size) {
  const char* fault = fault_wanted();
  (void)options;
  if (strcmp(fault, "open") == 0) return fail(RNNSERVE_UNAVAILABLE, "there is no fake device", error, error_size);
  if (strcmp(fault, "open_without_text") == 0) return RNNSERVE_UNAVAILABLE;
  if (strcmp(fault, "open_makes_nothing") == 0) return RNNSERVE_OK;
  if (strcmp(fault, "unknown_code") == 0) return fail(99, "a new kind of trouble", error, error_size);
  if (strcmp(fault, "text_without_end") == 0) {
    memset(error, 'x', error_size);
    return RNNSERVE_INTERNAL;
  }
  if (strcmp(fault, "text_of_bytes") == 0) return fail(RNNSERVE_INTERNAL, "two\nlines\x1b[31m \xff", error, error_size);
  rnnserve_engine* made = calloc(1, sizeof *made);
  if (made == NULL) return fail(RNNSERVE_RESOURCE_EXHAUSTED, "the host's memory is exhausted", error, error_size);
  const char* trigger = getenv("RNNSERVE_FAKE_PLUGIN_TRIGGER");
  snprintf(made->fault, sizeof made->fault, "%s", fault);
  snprintf(made->trigger, sizeof made->trigger, "%s", trigger == NULL ? "" : trigger);
  pthread_mutex_init(&made->mutex, NULL);
  made->healthy = strcmp(fault, "sick_at_open") != 0;
  count_alive(1);
  *engine = made;
  return RNNSERVE_OK;
}

static void fake_close(rnnserve_engine* engine) {
  if (engine == NULL) return;
  pthread_mutex_destroy(&engine->mutex);
  free(engine);
  count_alive(-1);
}

static int32_t fake_device_info(rnnserve_engine* engine, rnnserve_device_info* info, char* error, size_t error_size) {
  if (has(engine, "device_info")) return fail(RNNSERVE_INTERNAL, "no answer", error, error_size);
  memset(info, 0, sizeof *info);
  snprintf(info->name, sizeof info->name, "Fake device");
  snprintf(info->versions, sizeof info->versions, "driver 1.2");
  info->memory_total_bytes = has(engine, "total_huge") ? INT64_MAX : kMemoryLimit;
  info->memory_limit_bytes = has(engine, "limit_negative")      ? -1
                             : has(engine, "limit_above_total") ? kMemoryLimit + 1
                                                                : info->memory_total_bytes;
  info->memory_in_use_bytes = has(engine, "use_above_limit") ? kMemoryLimit + 1 : 0;
  info->workers_wanted = has(engine, "workers_negative") ? -1 : has(engine, "workers_huge") ? INT32_MAX : 1;
  info->healthy = is_healthy(engine);
  if (!info->healthy) snprintf(info->failure, sizeof info->failure, "the fake device fell off the bus");
  return RNNSERVE_OK;
}

static int32_t fake_supports(rnnserve_engine* engine, const rnnserve_cell* cell, char* error, size_t error_size) {
  (void)engine;
  if (cell->data_type == RNNSERVE_FLOAT || cell->data_type == RNNSERVE_DOUBLE) return RNNSERVE_OK;
  return fail(RNNSERVE_UNIMPLEMENTED, "only float32 and float64 are supported", error, error_size);
}

static void fake_program_destroy(rnnserve_program* program) {
  if (program == NULL) return;
  fake_cell_free(&program->cell);
  free(program);
  count_alive(-1);
}

static int32_t fake_program_create(rnnserve_engine* engine, const rnnserve_cell* cell, const rnnserve_weights* weights,
                                   rnnserve_program** program, char* error, size_t error_size) {
  if (has(engine, "create")) {
    return fail(RNNSERVE_RESOURCE_EXHAUSTED, "the fake device is full; try later", error, error_size);
  }
  if (has(engine, "create_makes_nothing")) return RNNSERVE_OK;
  rnnserve_program* made = calloc(1, sizeof *made);
  if (made == NULL || !fake_cell_init(&made->cell, cell, weights)) {
    free(made);
    return fail(RNNSERVE_RESOURCE_EXHAUSTED, "the host's memory is exhausted", error, error_size);
  }
  made->engine = engine;
  count_alive(1);
  *program = made;
  return RNNSERVE_OK;
}

static int64_t fake_program_bytes(const rnnserve_program* program) {
  if (has(program->engine, "bytes_negative")) return -1;
  if (has(program->engine, "bytes_huge")) return INT64_MAX;
  const rnnserve_cell* cell = &program->cell.cell;
  const int64_t wide = (int64_t)fake_cell_gates(cell) * cell->hidden_size;
  return wide * (cell->input_size + cell->hidden_size + 1) * (int64_t)fake_cell_element(cell);
}

static int32_t fake_state_create(const rnnserve_program* program, rnnserve_state** state, char* error,
                                 size_t error_size) {
  if (!is_healthy(program->engine)) return fail(RNNSERVE_UNAVAILABLE, "the fake device is gone", error, error_size);
  if (has(program->engine, "state") || has_by_now(program->engine, "state_later")) {
    return fail(RNNSERVE_RESOURCE_EXHAUSTED, "no room for a state", error, error_size);
  }
  if (has(program->engine, "state_makes_nothing")) return RNNSERVE_OK;
  rnnserve_state* made = calloc(1, sizeof *made);
  double* h = calloc(2 * (size_t)program->cell.cell.hidden_size, sizeof(double));
  if (made == NULL || h == NULL) {
    free(made);
    free(h);
    return fail(RNNSERVE_RESOURCE_EXHAUSTED, "the host's memory is exhausted", error, error_size);
  }
  made->h = h;
  count_alive(1);
  *state = made;
  return RNNSERVE_OK;
}

static void fake_state_destroy(rnnserve_state* state) {
  if (state == NULL) return;
  free(state->h);
  free(state);
  count_alive(-1);
}

static int32_t fake_state_import(const rnnserve_program* program, rnnserve_state* state, int32_t type, const void* h,
                                 const void* c, char* error, size_t error_size) {
  const rnnserve_cell* cell = &program->cell.cell;
  const size_t hidden = (size_t)cell->hidden_size;
  if (has(program->engine, "import")) return fail(RNNSERVE_INTERNAL, "the state got lost", error, error_size);
  if (type != cell->data_type) return fail(RNNSERVE_INVALID_ARGUMENT, "type", error, error_size);
  memset(state->h, 0, 2 * hidden * sizeof(double));
  state->on_device = 0;
  if (h != NULL) fake_cell_read(cell, h, hidden, state->h);
  if (c != NULL && cell->kind == RNNSERVE_LSTM) fake_cell_read(cell, c, hidden, state->h + hidden);
  return RNNSERVE_OK;
}

static int32_t fake_state_export(const rnnserve_program* program, const rnnserve_state* state, int32_t type, void* h,
                                 void* c, char* error, size_t error_size) {
  const rnnserve_cell* cell = &program->cell.cell;
  const size_t hidden = (size_t)cell->hidden_size;
  if (state->on_device && !is_healthy(program->engine)) {
    return fail(RNNSERVE_DATA_LOSS, "the state was on a device that has failed", error, error_size);
  }
  if (has(program->engine, "export")) return fail(RNNSERVE_INTERNAL, "the state cannot be read", error, error_size);
  if (type != cell->data_type) return fail(RNNSERVE_INVALID_ARGUMENT, "type", error, error_size);
  if (h != NULL) fake_cell_write(cell, state->h, hidden, h);
  if (c != NULL && cell->kind == RNNSERVE_LSTM) fake_cell_write(cell, state->h + hidden, hidden, c);
  return RNNSERVE_OK;
}

static void fake_workspace_destroy(rnnserve_workspace* workspace) {
  if (workspace == NULL) return;
  free(workspace->scratch);
  free(workspace);
  count_alive(-1);
}

static int32_t fake_workspace_create(const rnnserve_program* program, rnnserve_workspace** workspace, char* error,
                                     size_t error_size) {
  if (has(program->engine, "workspace")) {
    return fail(RNNSERVE_RESOURCE_EXHAUSTED, "no room for a workspace", error, error_size);
  }
  rnnserve_workspace* made = malloc(sizeof *made);
  double* scratch = malloc(sizeof(double) * fake_cell_scratch(&program->cell.cell));
  if (made == NULL || scratch == NULL) {
    free(made);
    free(scratch);
    return fail(RNNSERVE_RESOURCE_EXHAUSTED, "the host's memory is exhausted", error, error_size);
  }
  made->scratch = scratch;
  count_alive(1);
  *workspace = made;
  return RNNSERVE_OK;
}

static void fake_wait_for_release(void) {
  pthread_mutex_lock(&gate.mutex);
  gate.waiting = 1;
  pthread_cond_broadcast(&gate.changed);
  while (!gate.released) pthread_cond_wait(&gate.changed, &gate.mutex);
  pthread_mutex_unlock(&gate.mutex);
}

static int32_t fake_advance(const rnnserve_program* program, const rnnserve_slice* slices, size_t count,
                            rnnserve_workspace* workspace, char* error, size_t error_size) {
  const rnnserve_cell* cell = &program->cell.cell;
  const size_t hidden = (size_t)cell->hidden_size, bytes = 2 * hidden * sizeof(double);
  if (has(program->engine, "advance")) return fail(RNNSERVE_INTERNAL, "the sum came out odd", error, error_size);
  if (has(program->engine, "device_lost") || has_by_now(program->engine, "device_lost_later")) {
    pthread_mutex_lock(&program->engine->mutex);
    program->engine->healthy = 0;
    pthread_mutex_unlock(&program->engine->mutex);
    return fail(RNNSERVE_DATA_LOSS, "the state was on a device that has failed", error, error_size);
  }
  if (!is_healthy(program->engine)) return fail(RNNSERVE_UNAVAILABLE, "the fake device is gone", error, error_size);
  if (has(program->engine, "slow")) fake_wait_for_release();
  for (size_t k = 0; k < count; ++k) {
    const rnnserve_slice* slice = &slices[k];
    double* h = slice->after->h;
    if (slice->before == NULL) {
      memset(h, 0, bytes);
    } else if (slice->before != slice->after) {
      memcpy(h, slice->before->h, bytes);
    }
    slice->after->on_device = 1;
    for (int64_t t = 0; t < slice->steps; ++t) {
      fake_cell_step(&program->cell, (const char*)slice->x + t * slice->x_stride, h, h + hidden, workspace->scratch);
      if (slice->y != NULL) fake_cell_write(cell, h, hidden, (char*)slice->y + t * slice->y_stride);
    }
  }
  return RNNSERVE_OK;
}

const rnnserve_api* rnnserve_engine_api(const rnnserve_handshake* host);

const rnnserve_api* rnnserve_engine_api(const rnnserve_handshake* host) {
  static const rnnserve_api good = {RNNSERVE_HANDSHAKE,
                                    "fake",
                                    fake_open,
                                    fake_close,
                                    fake_device_info,
                                    fake_supports,
                                    fake_program_create,
                                    fake_program_destroy,
                                    fake_program_bytes,
                                    fake_state_create,
                                    fake_state_destroy,
                                    fake_state_import,
                                    fake_state_export,
                                    fake_workspace_create,
                                    fake_workspace_destroy,
                                    fake_advance};
  static rnnserve_api faulty;
  const char* fault = fault_wanted();
  if (host == NULL || strcmp(fault, "no_table") == 0) return NULL;
  faulty = good;
  if (strcmp(fault, "version") == 0) {
    faulty.handshake.abi_version += 1;
  } else if (strcmp(fault, "slice_size") == 0) {
    faulty.handshake.slice_size -= 8;
  } else if (strcmp(fault, "api_size") == 0) {
    faulty.handshake.api_size -= (uint32_t)sizeof(void*);
    faulty.advance = NULL;
  } else if (strcmp(fault, "no_name") == 0) {
    faulty.name = NULL;
  } else if (strcmp(fault, "odd_name") == 0) {
    faulty.name = "Fake\n";
  } else if (strcmp(fault, "no_advance") == 0) {
    faulty.advance = NULL;
  } else {
    return &good;
  }
  return &faulty;
}
