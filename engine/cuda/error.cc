// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/error.h"

namespace rnnserve::cuda {
namespace {

// A library's failure may only be the messenger of a lost context, or of memory that is used up.
[[noreturn]] void ThrowLibrary(const std::string& text, bool ran) {
  const cudaError_t last = cudaGetLastError();  // taken: a plain one must not be reported again by the next launch
  const cudaError_t under = IsSticky(last) || !ran ? last : cudaDeviceSynchronize();
  if (IsSticky(under) || under == cudaErrorMemoryAllocation) Check(under, text.c_str());
  throw Error(RNNSERVE_INTERNAL, text);
}

// cuDNN 9 numbers its failures by thousands: 4xxx inside, 5xxx while running.
bool IsExecutionFailure(cudnnStatus_t status) { return static_cast<int>(status) / 1000 == 5; }
bool IsAllocationFailure(cudnnStatus_t status) {
  return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
         status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
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
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorExternalDevice:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsClientTerminated:
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
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidKernelImage:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorJitCompilationDisabled:
      throw Error(RNNSERVE_UNAVAILABLE, text);
    default:
      throw Error(RNNSERVE_INTERNAL, text);
  }
}

void Check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string text = std::string(what) + ": " + cublasLtGetStatusString(status);
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw Error(RNNSERVE_RESOURCE_EXHAUSTED, text);
  ThrowLibrary(text, status == CUBLAS_STATUS_EXECUTION_FAILED);
}

void Check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  const std::string text = std::string(what) + ": " + cudnnGetErrorString(status);
  if (IsAllocationFailure(status)) throw Error(RNNSERVE_RESOURCE_EXHAUSTED, text);
  ThrowLibrary(text, IsExecutionFailure(status));
}

void CheckLaunch(const char* what) { Check(cudaGetLastError(), what); }

}  // namespace rnnserve::cuda
