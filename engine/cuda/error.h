// SPDX-License-Identifier: Apache-2.0
// Failures inside the plugin travel as Error and become a code and a text at the C ABI.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "engine/plugin/engine_abi.h"

namespace rnnserve::cuda {

class Error : public std::runtime_error {
 public:
  Error(int32_t code, const std::string& text, bool sticky = false)
      : std::runtime_error(text), code_(code), sticky_(sticky) {}
  int32_t code() const { return code_; }
  // The device's context is lost: nothing will run in this process again.
  bool sticky() const { return sticky_; }
  // There may be room another time, or for less.
  bool is_short_of_memory() const { return !sticky_ && code_ == RNNSERVE_RESOURCE_EXHAUSTED; }

 private:
  int32_t code_;
  bool sticky_;
};

// Whether `error` leaves the context unusable.
bool IsSticky(cudaError_t error);

// Throw unless the call succeeded; `what` names it for the text.
void Check(cudaError_t error, const char* what);
void Check(cublasStatus_t status, const char* what);
void Check(cudnnStatus_t status, const char* what);
// The error of the launches before.
void CheckLaunch(const char* what);

}  // namespace rnnserve::cuda
