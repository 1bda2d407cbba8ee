// SPDX-License-Identifier: Apache-2.0
// librnnserve_cuda.so on a real device, with nothing but the CUDA toolkit.
//
//   cuda_selftest [facts] [cases] [resident] [replay FILE] [bench]
//
// facts: what cuDNN does, line by line, against what is written of it; cases: random cells against the host reference;
// resident: those of them that run in one launch a block; replay: cases that cuda_cases_test has written, against
// theirs; bench: times next to bare cuDNN. Without words all of them, replay if cases.bin lies beside the program.
// RNNSERVE_CUDA_PLUGIN names another library.
// Exit code 0: all passed; 1: something failed; 77: no usable device here.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/engine/cuda/selftest/plugin.h"

namespace rnnserve::selftest {
namespace {

constexpr int kSkipped = 77;

std::string Beside(const std::string& program, const char* name) {
  const size_t slash = program.rfind('/');
  return (slash == std::string::npos ? "./" : program.substr(0, slash + 1)) + name;
}

bool Exists(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file != nullptr) std::fclose(file);
  return file != nullptr;
}

const rnnserve_api* LoadPlugin(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::printf("FAIL loading %s: %s\n", path.c_str(), dlerror());
    return nullptr;
  }
  const auto get = reinterpret_cast<rnnserve_engine_api_fn>(dlsym(library, RNNSERVE_ENGINE_API_SYMBOL));
  const rnnserve_handshake host = RNNSERVE_HANDSHAKE;
  const rnnserve_api* const api = get != nullptr ? get(&host) : nullptr;
  if (api == nullptr) {
    std::printf("FAIL: %s doesn't speak version %u of the ABI\n", path.c_str(), RNNSERVE_ENGINE_ABI_VERSION);
  }
  return api;
}

// 0, kSkipped or 1; prints what the device is.
int Describe(const rnnserve_api& api) {
  const Engine engine(api, "");
  if (engine.code() != RNNSERVE_OK) {
    const bool is_missing = engine.code() == RNNSERVE_UNAVAILABLE;
    std::printf("%s: %s\n", is_missing ? "SKIPPED, no CUDA device can be used here" : "FAIL opening", engine.error());
    return is_missing ? kSkipped : 1;
  }
  rnnserve_device_info info{};
  char error[256] = {};
  api.device_info(engine.get(), &info, error, sizeof error);
  std::printf("device: %s, %s, %.0f MiB\n\n", info.name, info.versions,
              static_cast<double>(info.memory_total_bytes) / (1 << 20));
  return 0;
}

int RunSuites(const std::string& program, std::vector<std::string> words) {
  const auto wants = [&](const char* word) { return std::ranges::find(words, word) != words.end(); };
  if (wants("risky")) {  // from ourselves, below
    RunRiskyFacts();
    Summarise();
    return Failures() == 0 ? 0 : 1;
  }
  const char* const given = std::getenv("RNNSERVE_CUDA_PLUGIN");
  const rnnserve_api* const api = LoadPlugin(given != nullptr ? given : Beside(program, "librnnserve_cuda.so"));
  if (api == nullptr) return 1;
  if (const int code = Describe(*api); code != 0) return code;
  if (words.empty()) {
    words = {"cases", "bench", "facts"};
    if (const std::string written = Beside(program, "cases.bin"); Exists(written)) {
      words.insert(words.end(), {"replay", written});
    }
  }
  const auto replay = std::ranges::find(words, "replay");
  if (replay != words.end()) RunReplay(*api, replay + 1 != words.end() ? *(replay + 1) : "");
  if (wants("cases")) RunCases(*api);
  if (wants("resident")) RunResident(*api);
  if (wants("bench")) RunBench(*api);
  if (wants("facts")) {
    RunFacts();
    std::fflush(stdout);
    Report(std::system(("'" + program + "' risky").c_str()) == 0, "facts in a process of their own", "%s", "see above");
  }
  Summarise();
  return Failures() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace rnnserve::selftest

int main(int argc, char** argv) { return rnnserve::selftest::RunSuites(argv[0], {argv + 1, argv + argc}); }
