// SPDX-License-Identifier: Apache-2.0
// cuBLASLt: descriptors of sizes, and products in plain loops. Column-major, as there.
#include <cublasLt.h>

#include <cstring>

#include "tests/engine/cuda/fake_cuda/fake_device.h"

namespace {

using rnnserve::fake_cuda::FakeDevice;

struct Operation {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t a;
};
struct Layout {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t stride;
};
// What an algorithm was chosen for: it may not be run with less.
struct Algorithm {
  uint32_t alignment[4];
};

template <typename T, typename Opaque>
T* As(Opaque* opaque) {
  static_assert(sizeof(T) <= sizeof(Opaque));
  return reinterpret_cast<T*>(opaque);
}
template <typename T, typename Opaque>
const T* As(const Opaque* opaque) {
  return reinterpret_cast<const T*>(opaque);
}

bool IsAligned(const void* address, uint32_t alignment) {
  return reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

template <typename T>
void Multiply(const Layout& a, const Layout& b, const Layout& d, const T* left, const T* right, T beta, T* out) {
  for (uint64_t column = 0; column < d.columns; ++column) {
    for (uint64_t row = 0; row < d.rows; ++row) {
      T sum = 0;
      const T* x = left + row * static_cast<uint64_t>(a.stride);
      const T* y = right + column * static_cast<uint64_t>(b.stride);
      for (uint64_t k = 0; k < b.rows; ++k) sum += x[k] * y[k];
      T& target = out[column * static_cast<uint64_t>(d.stride) + row];
      target = beta == 0 ? sum : sum + beta * target;
    }
  }
}

}  // namespace

extern "C" {

cublasStatus_t CUBLASWINAPI cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new char);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtDestroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<char*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
const char* CUBLASWINAPI cublasLtGetStatusString(cublasStatus_t) { return "as the fake says"; }

cublasStatus_t CUBLASWINAPI cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, size_t,
                                                            cublasComputeType_t compute, cudaDataType_t scale) {
  *As<Operation>(desc) = {compute, scale, CUBLAS_OP_N};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                                           cublasLtMatmulDescAttributes_t attribute, const void* value,
                                                           size_t bytes) {
  if (attribute != CUBLASLT_MATMUL_DESC_TRANSA || bytes != sizeof(int32_t)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&As<Operation>(desc)->a, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t, cudaDataType type,
                                                              uint64_t rows, uint64_t columns, int64_t stride) {
  *As<Layout>(layout) = {type, rows, columns, stride};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t) {
  for (uint32_t& alignment : As<Algorithm>(preference)->alignment) alignment = 256;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                                 cublasLtMatmulPreferenceAttributes_t attribute,
                                                                 const void* value, size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    return bytes == sizeof(uint64_t) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  }
  const int which = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (which < 0 || which > 3 || bytes != sizeof(uint32_t)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&As<Algorithm>(preference)->alignment[which], value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t CUBLASWINAPI cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                                           cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                           cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                           cublasLtMatmulPreference_t preference, int,
                                                           cublasLtMatmulHeuristicResult_t* result, int* found) {
  FakeDevice::Get().Count("heuristic");
  *As<Algorithm>(&result->algo) = *As<Algorithm>(preference);
  result->workspaceSize = 64;
  result->state = CUBLAS_STATUS_SUCCESS;
  *found = FakeDevice::Get().Has("no_algorithm") ? 0 : 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha,
                                           const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                                           cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                                           cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                                           const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                                           size_t workspace_bytes, cudaStream_t stream) {
  FakeDevice& device = FakeDevice::Get();
  if (device.lost() != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  const Operation op = *As<Operation>(operation);
  const Layout left = *As<Layout>(a_layout), right = *As<Layout>(b_layout), out = *As<Layout>(d_layout);
  const uint32_t* alignment = As<Algorithm>(algorithm)->alignment;
  const bool is_double = op.scale == CUDA_R_64F;
  const bool good = op.a == CUBLAS_OP_T && left.type == op.scale && right.type == op.scale && out.type == op.scale &&
                    c == d && std::memcmp(c_layout, d_layout, sizeof out) == 0 && left.rows == right.rows &&
                    left.columns == out.rows && right.columns == out.columns && left.rows > 0 && out.rows > 0 &&
                    out.columns > 0 && left.stride >= static_cast<int64_t>(left.rows) &&
                    out.stride >= static_cast<int64_t>(out.rows) && workspace != nullptr && workspace_bytes >= 64 &&
                    IsAligned(a, alignment[0]) && IsAligned(b, alignment[1]) && IsAligned(c, alignment[2]) &&
                    IsAligned(d, alignment[3]) && op.compute != (is_double ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_64F) &&
                    (is_double ? *static_cast<const double*>(alpha) == 1 : *static_cast<const float*>(alpha) == 1);
  if (!good) return CUBLAS_STATUS_INVALID_VALUE;
  device.Count(op.compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? "product_tf32" : "product");
  const double factor = is_double ? *static_cast<const double*>(beta) : double{*static_cast<const float*>(beta)};
  stream->Push([=] {
    FakeDevice::Get().Count("product_ran", 1);
    if (is_double) {
      Multiply(left, right, out, static_cast<const double*>(a), static_cast<const double*>(b), factor,
               static_cast<double*>(d));
    } else {
      Multiply(left, right, out, static_cast<const float*>(a), static_cast<const float*>(b), static_cast<float>(factor),
               static_cast<float*>(d));
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
