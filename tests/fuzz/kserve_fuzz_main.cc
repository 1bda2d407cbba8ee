// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry: kserve_fuzz CORPUS_FOLDER; kserve_corpus_test writes one (see CMakeLists.txt).
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/kserve_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rnnserve::FuzzKserve({reinterpret_cast<const char*>(data), size});
  return 0;
}
