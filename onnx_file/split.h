// SPDX-License-Identifier: Apache-2.0
// A file that no server serves whole, as three: what comes before, what is served, and what comes after. The parts
// before and after are for a general runtime (onnxruntime); one after the other they compute what the whole file does.
//
//   absl::StatusOr<OnnxSplit> parts = SplitOnnx(inspection, folder, {});
//   for (const SplitPart& part : parts->parts) ... part.bytes ...
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "onnx_file/folder.h"
#include "onnx_file/inspect.h"

namespace rnnserve {

struct SplitTensor {
  std::string name;
  std::string type;   // "float32"
  std::string shape;  // "[T, N, 128]", axes as the file calls them; empty: not known
  // An input: "caller", or the part that gives it. An output: the parts that take it, and "caller" where the whole file
  // gives it.
  std::vector<std::string> ends;
};

struct SplitPart {
  std::string name;  // "before", "served", "after"
  std::string bytes;
  int64_t nodes = 0;
  std::vector<SplitTensor> inputs, outputs;
};

struct OnnxSplit {
  std::vector<SplitPart> parts;  // in the order of their run; "served" is always among them
  // Nodes that keep the file from being served whole, each with the reason; what lies before or behind them went along.
  std::vector<std::string> in_the_way;
  // What the parts take for granted: branches of If nodes.
  std::vector<std::string> assumptions;
};

struct SplitOptions {
  const InspectedNode* node = nullptr;  // the layer to serve; null: all of the main graph
  // Serves nothing that ends a sequence (a mean over time, the last step), so that the served part can be streamed.
  bool stream = false;
  OnnxLimits limits = {};
};

// FAILED_PRECONDITION, with the node and what to do, where no such cut exists. `folder` is the file's.
absl::StatusOr<OnnxSplit> SplitOnnx(const OnnxInspection& inspection, const Folder& folder,
                                    const SplitOptions& options);

}  // namespace rnnserve
