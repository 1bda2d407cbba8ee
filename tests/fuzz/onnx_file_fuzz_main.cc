// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry: onnx_file_fuzz CORPUS_FOLDER. `fuzz_corpus FOLDER` writes a corpus to begin with.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/onnx_file_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  rnnserve::FuzzOnnxFile({reinterpret_cast<const char*>(data), size});
  return 0;
}
