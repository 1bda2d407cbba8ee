/* SPDX-License-Identifier: Apache-2.0
 * A libcuda.so.1 without a device, of the version that FAKE_CUDA_DRIVER_VERSION names: enough for the real CUDA runtime
 * to say what is wrong. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { kSuccess = 0, kNoDevice = 100 };

int cuDriverGetVersion(int* version);
int cuInit(unsigned int flags);
int cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t flags, int* status);

int cuDriverGetVersion(int* version) {
  const char* wanted = getenv("FAKE_CUDA_DRIVER_VERSION");
  *version = wanted == NULL ? 13000 : atoi(wanted);
  return kSuccess;
}
int cuInit(unsigned int flags) {
  (void)flags;
  return kNoDevice;
}
static int fail(void) { return kNoDevice; }

int cuGetProcAddress_v2(const char* symbol, void** function, int version, uint64_t flags, int* status) {
  (void)version;
  (void)flags;
  if (strcmp(symbol, "cuDriverGetVersion") == 0) {
    *function = (void*)(uintptr_t)&cuDriverGetVersion;
  } else if (strcmp(symbol, "cuInit") == 0) {
    *function = (void*)(uintptr_t)&cuInit;
  } else if (strncmp(symbol, "cuGetProcAddress", 16) == 0) {
    *function = (void*)(uintptr_t)&cuGetProcAddress_v2;
  } else {
    *function = (void*)(uintptr_t)&fail;
  }
  if (status != NULL) *status = 0;
  return kSuccess;
}
