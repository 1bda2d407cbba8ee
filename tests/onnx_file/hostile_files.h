// SPDX-License-Identifier: Apache-2.0
// ONNX files made to hurt their reader, with a word of the reason for which they are refused. The corpus of the
// loader's tests, of rnnctl inspect's and of the fuzz target.
#pragma once

#include <string>
#include <vector>

namespace rnnserve {

struct HostileFile {
  std::string name;
  std::string bytes;   // of model.onnx
  std::string reason;  // holds in the refusal, by LoadOnnx and by ResolveOperator after it
};

std::vector<HostileFile> HostileFiles();

}  // namespace rnnserve
