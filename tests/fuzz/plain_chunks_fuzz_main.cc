// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry: plain_chunks_fuzz CORPUS_FOLDER; plain_chunks_corpus_test writes one (see CMakeLists.txt).
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/plain_chunks_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rnnserve::FuzzPlainChunks({reinterpret_cast<const char*>(data), size});
  return 0;
}
