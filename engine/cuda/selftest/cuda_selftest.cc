// SPDX-License-Identifier: Apache-2.0
// cuda_selftest [facts] [cases] [bench]: librnnserve_cuda.so on a real device, with nothing but the CUDA toolkit.
// Without words: all three. Exit code 0: all passed; 1: something failed; 77: no usable device here.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "engine/cuda/selftest/selftest.h"

namespace {

constexpr int kSkipped = 77;

std::string Beside(const char* program, const char* name) {
  const std::string path = program;
  const size_t slash = path.rfind('/');
  return (slash == std::string::npos ? std::string("./") : path.substr(0, slash + 1)) + name;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace rnnserve::selftest;
  const auto wants = [&](const char* word) {
    for (int k = 1; k < argc; ++k) {
      if (std::strcmp(argv[k], word) == 0) return true;
    }
    return false;
  };
  int devices = 0;
  const cudaError_t found = cudaGetDeviceCount(&devices);
  if (found != cudaSuccess || devices == 0) {
    std::printf("SKIPPED: no CUDA device can be used here (%s)\n",
                found != cudaSuccess ? cudaGetErrorString(found) : "none found");
    return kSkipped;
  }
  if (wants("risky")) {
    RunRiskyFacts();
    return Failures() == 0 ? 0 : 1;
  }
  const bool all = argc == 1;
  const char* given = std::getenv("RNNSERVE_CUDA_PLUGIN");
  const std::string path = given != nullptr ? given : Beside(argv[0], "librnnserve_cuda.so");
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::printf("FAIL loading %s: %s\n", path.c_str(), dlerror());
    return 1;
  }
  const auto get = reinterpret_cast<rnnserve_engine_api_fn>(dlsym(library, RNNSERVE_ENGINE_API_SYMBOL));
  const rnnserve_handshake host = RNNSERVE_HANDSHAKE;
  const rnnserve_api* api = get != nullptr ? get(&host) : nullptr;
  if (api == nullptr) {
    std::printf("FAIL: %s doesn't speak version %u of the ABI\n", path.c_str(), RNNSERVE_ENGINE_ABI_VERSION);
    return 1;
  }
  if (all || wants("cases")) RunCases(*api);
  if (all || wants("bench")) RunBench(*api);
  bool risky_failed = false;
  if (all || wants("facts")) {
    RunFacts();
    std::fflush(stdout);
    risky_failed = std::system((std::string("'") + argv[0] + "' risky").c_str()) != 0;
  }
  std::printf("\n%d passed, %d failed%s\n", Passes(), Failures(),
              risky_failed ? ", and some of the facts in a process of their own" : "");
  return Failures() == 0 && !risky_failed ? 0 : 1;
}
