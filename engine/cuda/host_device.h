// SPDX-License-Identifier: Apache-2.0
// Functions marked so are one source for the device and for the host build that is tested everywhere.
#pragma once

#ifdef __CUDACC__
#define RNNSERVE_HOST_DEVICE __host__ __device__ inline
#else
#define RNNSERVE_HOST_DEVICE inline
#endif
