// SPDX-License-Identifier: Apache-2.0
// What a model's file calls its tensors, where all that it does beside its layers is to move axes: nothing is computed,
// so layers read and write the file's tensors as they lie. The operators' names are taken as well, where the file does
// not use them for something else (stack.h).
//
//   torch.onnx.export of nn.LSTM(39, 64, 2, batch_first=True):
//     input [N, T, 39]   is X                  output [N, T, 64]   is Y
//     h0, c0 [2, N, 64]  are initial_h, _c     hn, cn [2, N, 64]   are Y_h, Y_c
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/map/pipeline.h"
#include "engine/tensor.h"

namespace rnnserve {

enum class OutputKind { kY, kFinalH, kFinalC, kPipeline };

// Which axis of an output is slower than which: the slowest first. H is the fastest always.
enum class OutputAxis : uint8_t { kT, kN, kD };
using OutputOrder = std::array<OutputAxis, 3>;  // of a final state, kT is of size 1

struct FileOutput {
  std::string name = {};
  DataType type = DataType::kFloat;
  Shape shape = {};  // as in the file, with kDimT and kDimN
  OutputKind kind = OutputKind::kY;
  std::optional<size_t> layer = {};  // a final state of this layer only; else of all that have it
  OutputOrder order = {};
};

struct FileNames {
  std::vector<PipelineInput> inputs;  // in the file's order; lengths that the file lacks are not among them
  std::vector<FileOutput> outputs;

  // The input that brings the steps; there is one.
  const PipelineInput& x() const;
  const PipelineInput* lengths() const;
  const PipelineInput* FindInput(std::string_view name) const;
  bool HasOutput(std::string_view name) const;
  // For fingerprints.
  std::string CanonicalText() const;
};
using FileNamesPtr = std::shared_ptr<const FileNames>;

}  // namespace rnnserve
