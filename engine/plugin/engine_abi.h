/* SPDX-License-Identifier: Apache-2.0
 * The C ABI between rnnserve and an engine in a shared library (a "plugin"), in plain C.
 *
 * A plugin exports one symbol, rnnserve_engine_api, of type rnnserve_engine_api_fn. The host calls it with its own
 * handshake; the plugin answers with its table of functions, or NULL where it can't serve that host. Both sides then
 * hold what they need to refuse each other in words: the version and the sizes of all structs.
 *
 * Conventions
 * - Functions that can fail return a code (below; the numbers are gRPC's) and, if it isn't RNNSERVE_OK, write a text
 * into the caller's buffer `error` of `error_size` bytes: always terminated, cut where it doesn't fit. The text names
 * what was wrong and how to mend it.
 * - No C++ type, exception or allocation crosses: what a plugin makes, the same plugin destroys.
 * - All functions may be called from many threads at once. A workspace and a state belong to one call at a time.
 * - Weights are in ONNX block order (LSTM i, o, f, c; GRU z, r, h; P i, o, f), in the compute type: double for float64
 *   data, float for every other type. They are read during program_create only.
 * - Destroy in this order: states and workspaces, programs, engine. NULL is accepted by every destroy.
 */
#ifndef RNNSERVE_ENGINE_PLUGIN_ENGINE_ABI_H_
#define RNNSERVE_ENGINE_PLUGIN_ENGINE_ABI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with every change of a struct or of a meaning below. */
#define RNNSERVE_ENGINE_ABI_VERSION 1u
#define RNNSERVE_ENGINE_API_SYMBOL "rnnserve_engine_api"

enum {
  RNNSERVE_OK = 0,
  RNNSERVE_INVALID_ARGUMENT = 3,
  RNNSERVE_RESOURCE_EXHAUSTED = 8, /* the memory budget, or the device's memory */
  RNNSERVE_UNIMPLEMENTED = 12,     /* supports: another engine must run this cell */
  RNNSERVE_INTERNAL = 13,
  RNNSERVE_UNAVAILABLE = 14, /* no driver, no device, or the device is out of service: nothing was lost */
  RNNSERVE_DATA_LOSS = 15    /* the device failed and took its states with it */
};

/* Element types, numbered as in ONNX. */
enum { RNNSERVE_FLOAT = 1, RNNSERVE_FLOAT16 = 10, RNNSERVE_DOUBLE = 11, RNNSERVE_BFLOAT16 = 16 };

enum { RNNSERVE_LSTM = 0, RNNSERVE_GRU = 1, RNNSERVE_RNN = 2 };

enum {
  RNNSERVE_RELU = 0,
  RNNSERVE_TANH = 1,
  RNNSERVE_SIGMOID = 2,
  RNNSERVE_AFFINE = 3,
  RNNSERVE_LEAKY_RELU = 4,
  RNNSERVE_THRESHOLDED_RELU = 5,
  RNNSERVE_SCALED_TANH = 6,
  RNNSERVE_HARD_SIGMOID = 7,
  RNNSERVE_ELU = 8,
  RNNSERVE_SOFTSIGN = 9,
  RNNSERVE_SOFTPLUS = 10
};

typedef struct rnnserve_engine rnnserve_engine;
typedef struct rnnserve_program rnnserve_program;
typedef struct rnnserve_state rnnserve_state;
typedef struct rnnserve_workspace rnnserve_workspace;

typedef struct rnnserve_engine_options {
  /* Of device memory. 0: nine tenths of what is free at open; more than the device has: all of it. */
  int64_t memory_limit_bytes;
  int32_t device; /* ordinal */
  int32_t reserved;
} rnnserve_engine_options;

typedef struct rnnserve_activation {
  double alpha; /* 0 where the function has none */
  double beta;
  int32_t kind;
  int32_t reserved;
} rnnserve_activation;

/* One direction's equations. */
typedef struct rnnserve_cell {
  int64_t input_size;                 /* I, may be 0 */
  int64_t hidden_size;                /* H, at least 1 */
  rnnserve_activation activations[3]; /* f, g, h; LSTM uses three, GRU two, RNN one */
  double clip;                        /* > 0; infinity: none */
  int32_t kind;
  int32_t data_type; /* of x and y */
  int32_t clip_cell_input;
  int32_t input_forget;
  int32_t linear_before_reset;
  int32_t has_peephole;
  /* What the caller allows or asks for. */
  int32_t allow_reduced_precision;
  int32_t deterministic;
} rnnserve_cell;

/* Pointers to values of the compute type; none is NULL but p without peephole, and w where I is 0. */
typedef struct rnnserve_weights {
  const void* w;  /* [G*H, I] */
  const void* r;  /* [G*H, H] */
  const void* wb; /* [G*H] */
  const void* rb; /* [G*H] */
  const void* p;  /* [3*H] */
} rnnserve_weights;

/* `steps` steps of one sequence. x and y are host memory, not necessarily aligned; strides in bytes, any sign. */
typedef struct rnnserve_slice {
  const void* x; /* I contiguous elements of the data type */
  ptrdiff_t x_stride;
  void* y; /* H contiguous elements; NULL: not wanted */
  ptrdiff_t y_stride;
  int64_t steps;                /* at least 1 */
  const rnnserve_state* before; /* NULL: zeros. Never changed, unless it is also `after` */
  rnnserve_state* after;        /* never NULL, no two slices of a call share one */
} rnnserve_slice;

typedef struct rnnserve_device_info {
  char name[128];     /* of the device */
  char versions[192]; /* driver, runtime and libraries, for the log */
  int64_t memory_total_bytes;
  int64_t memory_limit_bytes;  /* at most the total */
  int64_t memory_in_use_bytes; /* what this engine holds of the limit */
  int32_t healthy;             /* 0: out of service for good; `failure` says why */
  int32_t workers_wanted;      /* threads that keep the device busy */
  char failure[256];
} rnnserve_device_info;

typedef struct rnnserve_handshake {
  uint32_t abi_version;
  uint32_t api_size;
  uint32_t options_size;
  uint32_t cell_size;
  uint32_t weights_size;
  uint32_t slice_size;
  uint32_t device_info_size;
  uint32_t reserved;
} rnnserve_handshake;

typedef struct rnnserve_api {
  rnnserve_handshake handshake; /* first, whatever the version */
  const char* name;             /* of the engine: "cuda" */

  int32_t (*open)(const rnnserve_engine_options* options, rnnserve_engine** engine, char* error, size_t error_size);
  void (*close)(rnnserve_engine* engine);
  int32_t (*device_info)(rnnserve_engine* engine, rnnserve_device_info* info, char* error, size_t error_size);

  /* RNNSERVE_OK, or RNNSERVE_UNIMPLEMENTED with the reason in the words of the operator's attributes. `engine` may be
   * NULL: the answer depends on the library alone, so that tables can be made without a device. */
  int32_t (*supports)(rnnserve_engine* engine, const rnnserve_cell* cell, char* error, size_t error_size);

  int32_t (*program_create)(rnnserve_engine* engine, const rnnserve_cell* cell, const rnnserve_weights* weights,
                            rnnserve_program** program, char* error, size_t error_size);
  void (*program_destroy)(rnnserve_program* program);
  int64_t (*program_bytes)(const rnnserve_program* program); /* of packed weights */

  int32_t (*state_create)(const rnnserve_program* program, rnnserve_state** state, char* error, size_t error_size);
  void (*state_destroy)(rnnserve_state* state);
  /* H elements of `type` each (the data type or the compute type); NULL means zeros. c is ignored but for an LSTM. */
  int32_t (*state_import)(const rnnserve_program* program, rnnserve_state* state, int32_t type, const void* h,
                          const void* c, char* error, size_t error_size);
  /* The inverse; NULL means not wanted. */
  int32_t (*state_export)(const rnnserve_program* program, const rnnserve_state* state, int32_t type, void* h, void* c,
                          char* error, size_t error_size);

  int32_t (*workspace_create)(const rnnserve_program* program, rnnserve_workspace** workspace, char* error,
                              size_t error_size);
  void (*workspace_destroy)(rnnserve_workspace* workspace);

  /* Synchronous. An error leaves every y and `after` undefined. */
  int32_t (*advance)(const rnnserve_program* program, const rnnserve_slice* slices, size_t count,
                     rnnserve_workspace* workspace, char* error, size_t error_size);
} rnnserve_api;

#define RNNSERVE_HANDSHAKE                                                                                     \
  {                                                                                                            \
    RNNSERVE_ENGINE_ABI_VERSION, sizeof(rnnserve_api), sizeof(rnnserve_engine_options), sizeof(rnnserve_cell), \
        sizeof(rnnserve_weights), sizeof(rnnserve_slice), sizeof(rnnserve_device_info), 0                      \
  }

/* The one exported symbol. The table lives as long as the library is loaded. */
typedef const rnnserve_api* (*rnnserve_engine_api_fn)(const rnnserve_handshake* host);

#ifdef __cplusplus
}
#endif

#endif /* RNNSERVE_ENGINE_PLUGIN_ENGINE_ABI_H_ */
