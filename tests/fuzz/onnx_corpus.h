// SPDX-License-Identifier: Apache-2.0
// Where fuzzing of ONNX files begins: sound models of every kind, and the hostile files.
#pragma once

#include <string>
#include <vector>

namespace rnnserve {

struct CorpusFile {
  std::string name;
  std::string bytes;
};

std::vector<CorpusFile> OnnxCorpus();

}  // namespace rnnserve
