// SPDX-License-Identifier: Apache-2.0
// Requests and replies, in plain types. Meanings are those of proto/rnnserve/v1.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "client/cpp/tensor.h"
#include "engine/op/operator.h"
#include "engine/weight_type.h"

namespace rnnserve::client {

// Members of the request types have initialisers so that {.name = ...} compiles without warnings.

enum class EmptyRowState { kZeros, kInitial };
// Over several servers: each call and session on its own, or at the first of the list that takes it.
enum class LoadBalancing { kSpread, kPickFirst };
enum class HealthStatus { kUnknown, kServing, kNotServing };

struct ModelRef {
  std::string name = {};
  std::optional<int64_t> version = {};  // absent: the highest one that is loaded
};

// An operator with its weights as an earlier reply or ModelInfo named them: 64 hexadecimal digits.
struct Fingerprint {
  std::string hex;
};

// Choices outside the operator. Absent: what the model says, else the server's default.
struct Options {
  std::optional<bool> clip_cell_input = {};
  std::optional<EmptyRowState> empty_row_state = {};
  std::optional<bool> deterministic = {};
  std::optional<bool> allow_reduced_precision = {};
  std::optional<WeightType> weight_type = {};  // anything but kAsGiven needs allow_reduced_precision
};

// What to run. With an OperatorDef the inputs hold the weights too; otherwise data tensors only.
using Target = std::variant<OperatorDef, ModelRef, Fingerprint>;

struct InferOptions {
  std::vector<std::string> outputs = {};  // empty: the operator's default
  Options options = {};
  std::string engine = {};  // empty: the server chooses
  int32_t priority = 0;
  std::string request_id = {};
  std::optional<std::chrono::milliseconds> timeout = {};  // absent: ClientOptions::timeout
};

struct InferResult {
  std::string request_id;
  std::vector<Tensor> outputs;
  std::string engine;  // empty if nothing had to be computed
  std::string fingerprint;
  std::chrono::nanoseconds queue_time{0};
  std::chrono::nanoseconds compute_time{0};
  int64_t largest_batch = 0;
  std::vector<std::string> warnings;
};

struct InlineModel {
  OperatorDef op;
  std::vector<Tensor> weights;
};
// NAME/VERSION/model.onnx of the server's repository folder.
struct FromRepository {};
// The bytes of an ONNX file with all weights inside.
struct OnnxFile {
  std::string bytes;
};

struct LoadRequest {
  std::string name = {};
  // Absent: of an upload, one more than the highest, or that one if it is equal; from the repository, 1.
  std::optional<int64_t> version = {};
  std::variant<FromRepository, InlineModel, std::vector<InlineModel>, OnnxFile> source = {};  // the third: layers
  Options options = {};
  std::string engine = {};
};

// Bytes of a file that have gone or come so far, and all of them.
using Progress = std::function<void(int64_t bytes, int64_t of)>;

struct TensorSpec {
  std::string name;
  DataType type = DataType::kFloat;
  std::vector<std::string> shape;  // numbers, or the names of dimensions the caller chooses
  bool optional = false;
};

struct ModelInfo {
  std::string name;
  int64_t version = 0;
  std::string fingerprint;
  OperatorDef op;                   // empty for a stack
  std::vector<OperatorDef> layers;  // of a stack (a model of several layers), first to last; else empty
  std::vector<TensorSpec> inputs, outputs, state;
  Options options;
  std::string engine;
  std::string source;  // "upload", or the file below the repository folder
  int64_t weight_bytes = 0;
  int64_t packed_bytes = 0;
  std::string tenant;  // the owner; other tenants cannot see it; "": shared
};

struct ModelList {
  struct Failure {
    std::string path;
    std::string reason;
  };
  std::vector<ModelInfo> models;
  std::vector<Failure> failures;
};

}  // namespace rnnserve::client
