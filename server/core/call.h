// SPDX-License-Identifier: Apache-2.0
// What a call of the core is: its request, its reply, the states that it may start from and end in, and the model that
// it runs. Below the core, so that server/routing can compare replies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/elements.h"
#include "base/recycled.h"
#include "engine/engine.h"
#include "engine/op/stack.h"
#include "server/admission/byte_budget.h"
#include "server/admission/request_origin.h"
#include "server/models/model_store.h"
#include "server/telemetry/work_metrics.h"

namespace rnnserve {

// --- states as handles, for callers that keep them between runs (sessions) ---

// The deleter of kept states, called by the last holder: what a session knew must not lie in free memory.
struct WipeState {
  ProgramPtr program;
  DataType compute_type;
  void operator()(const State* state) const {
    State& last = const_cast<State&>(*state);  // the last reference
    program->ImportState(compute_type, nullptr, nullptr, last);
    delete state;
  }
};

// The states of one layer: direction d, row n at [d * rows + n]. Null: zeros. Each was made by the program of its layer
// and direction. Handles are never changed once they are here; runs that start from one may share it.
using LayerStates = absl::InlinedVector<std::shared_ptr<const State>, 1>;
// The states of each layer.
using RunStates = RecycledVector<LayerStates>;

// --- models ---

struct ModelName {
  std::string name;
  std::optional<int64_t> version;
};
struct ModelFingerprint {
  std::string hex;
};

// The model that a call names, with options and engine decided.
struct ResolvedModel {
  ModelPtr model;
  RunOptions run_options;
  EngineOptions engine_options;
  std::string engine;                   // "": the server's default; "auto": whichever is fastest here
  std::string label;                    // in metrics: the model's name
  std::optional<int64_t> version = {};  // of a model that was named

  const std::vector<CellPtr>& cells(size_t layer) const {
    return model->layers()[layer].cells(run_options.clip_cell_input);
  }
};

// The programs of each layer, one a direction.
using LayerPrograms = absl::InlinedVector<absl::InlinedVector<ProgramPtr, 1>, 1>;

// What runs the layers of a call.
struct EngineSet {
  absl::InlinedVector<const Engine*, 1> engines;  // of each layer
  LayerPrograms programs;
  std::string names = {};                           // "cpu", or "cpu, onednn" where they differ
  std::shared_ptr<const WorkMetrics> metrics = {};  // may be null
};

// A model with everything decided and packed, for callers that run it many times: sessions pin one.
struct PinnedModel : ResolvedModel {
  EngineSet engines;
  // The same on another engine, which a share of its runs is compared with; null: none is.
  std::shared_ptr<const PinnedModel> second = nullptr;
};
using PinnedModelPtr = std::shared_ptr<const PinnedModel>;

// --- request and reply ---

// One Infer call. Tensor views point into the caller's message, which lives until the completion has run.
struct InferCall : RequestOrigin {
  std::variant<OperatorDef, ModelName, ModelFingerprint> target;
  std::vector<NamedTensor> inputs;
  std::vector<std::string> outputs;  // empty: default
  OptionalOptions options;
  std::string engine;            // "": the model's default, else the server's; "auto": whichever is fastest here
  std::string_view tenant = {};  // the tenant whose models it may name besides shared ones (ModelStore)
};

struct OutputTensor {
  std::string name;
  DataType type = DataType::kFloat;
  Shape shape;
  Elements bytes;
};

using OutputTensors = RecycledVector<OutputTensor>;

struct InferReply {
  OutputTensors outputs;
  std::string engine;  // empty if nothing had to be computed; of several layers "cpu, onednn" where they differ
  ModelPtr model;
  absl::Duration queue_time;
  absl::Duration compute_time;
  int64_t largest_batch = 0;
  RunStates states;  // if the call brought some
  // What the outputs take of the core's budget: kept until the reply has left the process.
  std::optional<ByteBudget::Share> memory;
};

using InferDone = absl::AnyInvocable<void(absl::StatusOr<InferReply>&&)>;

}  // namespace rnnserve
