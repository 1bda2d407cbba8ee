// SPDX-License-Identifier: Apache-2.0
// What `rnnctl inspect` found in a file, for people and for scripts.
#pragma once

#include <string>
#include <vector>

#include "client/rnnctl/inspect/precision.h"
#include "onnx_file/inspect.h"
#include "onnx_file/split.h"

namespace rnnserve::rnnctl::inspect {

// `path` as the user gave it. `split`: how a file that no server takes whole may be cut; null: it is one, or no cut is
// known.
std::string ShowReport(const std::string& path, const OnnxInspection& file, const OnnxSplit* split);
std::string ReportJson(const std::string& path, const OnnxInspection& file, const OnnxSplit* split,
                       const std::vector<NodePrecision>& precision);
// A line for each node in the way, up to a few.
std::string ShowInTheWay(const OnnxSplit& split);

// "T", "N" or a number, of each axis.
std::vector<std::string> DimensionTexts(const Shape& shape);
// "yes": the server loads the file as it is; "extract": the node, once it is extracted; "no".
std::string Verdict(const OnnxInspection& file, const InspectedNode& node);
std::string DirectionName(const OpSpec& spec);
// How a person names a node on the command line: its name if no other has it, else its number.
std::string NodeKey(const OnnxInspection& file, const InspectedNode& node);
// Bytes of W, R, B, P, and of one row's state in the type it is kept in.
int64_t WeightBytes(const InspectedNode& node);
int64_t StateBytes(const OpSpec& spec);
// Attributes other than hidden_size that differ from the operator's defaults, "clip=3".
std::vector<std::string> UnusualAttributes(const InspectedNode& node);

}  // namespace rnnserve::rnnctl::inspect
