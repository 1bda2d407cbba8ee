// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/error.h"

#include "engine/plugin/engine_abi.h"

namespace rnnserve::cuda {
namespace {

// A library's failure may only be the messenger of a lost context.
void ThrowLibrary(const std::string& text, bool execution) {
  const cudaError_t under = execution ? cudaDeviceSynchronize() : cudaPeekAtLastError();
  if (IsSticky(under)) Check(under, text.c_str());
  throw Error(RNNSERVE_INTERNAL, text);
}

}  // namespace

bool IsSticky(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorAssert:
    case cudaErrorContextIsDestroyed:
    case cudaErrorDeviceUninitialized:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  const std::string text = std::string(what) + ": " + cudaGetErrorName(error) + " (" + cudaGetErrorString(error) + ")";
  cudaGetLastError();  // a plain error must not be reported again by the next launch
  if (IsSticky(error)) throw Error(RNNSERVE_DATA_LOSS, text, true);
  switch (error) {
    case cudaErrorMemoryAllocation:
      throw Error(RNNSERVE_RESOURCE_EXHAUSTED, text);
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorInitializationError:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorStubLibrary:
    case cudaErrorDevicesUnavailable:
    case cudaErrorInvalidDevice:
      throw Error(RNNSERVE_UNAVAILABLE, text);
    default:
      throw Error(RNNSERVE_INTERNAL, text);
  }
}

void Check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string text = std::string(what) + ": " + cublasGetStatusString(status);
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw Error(RNNSERVE_RESOURCE_EXHAUSTED, text);
  ThrowLibrary(text, status == CUBLAS_STATUS_EXECUTION_FAILED);
}

void Check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string text = std::string(what) + ": " + cudnnGetErrorString(status);
  if (status == CUDNN_STATUS_ALLOC_FAILED) throw Error(RNNSERVE_RESOURCE_EXHAUSTED, text);
  ThrowLibrary(text, status == CUDNN_STATUS_EXECUTION_FAILED);
}

void CheckLaunch(const char* what) { Check(cudaGetLastError(), what); }

}  // namespace rnnserve::cuda
