// SPDX-License-Identifier: Apache-2.0
// The seam between the server and the numbers.
//
//   absl::Status can = engine.Supports(cell->spec(), {});          // OK, or the engine's own reason
//   auto program = engine.Compile(cell).value();                   // packs the weights once
//   auto workspace = program->NewWorkspace();                      // one per thread
//   auto state = program->NewState();                              // one per sequence; zeros
//   absl::Status ran = program->Advance(slices, *workspace);       // synchronous
//
// Engines and programs are safe to use from many threads; a workspace and a state belong to one call at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/cell.h"
#include "engine/sequence.h"
#include "engine/weight_type.h"

namespace rnnserve {

// What a request allows or asks for beyond the cell.
struct EngineOptions {
  bool allow_reduced_precision = false;  // may round h or weights to 16 bits inside
  bool deterministic = false;            // same bits whatever shares the batch and however the sequence is cut
  // Anything but kAsGiven needs allow_reduced_precision, and an engine that can.
  WeightType weights = WeightType::kAsGiven;
  bool operator==(const EngineOptions&) const = default;
};

// For an engine that keeps weights as given: UNIMPLEMENTED if `options` ask for anything else.
absl::Status CheckWeightsAsGiven(const EngineOptions& options);

// Scratch memory of one thread; grows as needed.
class Workspace {
 public:
  virtual ~Workspace() = default;

  // No other thread of this process needs a CPU: Advance may use more threads than the one that calls it.
  bool is_alone = true;
};

// A cell made ready to run. Immutable.
class Program {
 public:
  virtual ~Program() = default;

  // A state of zeros.
  virtual std::unique_ptr<State> NewState() const = 0;
  // Sets `state` from H elements of `type` (the data type or the compute type) each; null pointers mean zeros.
  // `c` is ignored unless the cell is an LSTM. No alignment needed. state.failure() says if it could not be done.
  virtual void ImportState(DataType type, const std::byte* h, const std::byte* c, State& state) const = 0;
  // The inverse; null pointers mean not wanted. Exporting in the compute type is exact. Look at state.failure() after
  // it.
  virtual void ExportState(const State& state, DataType type, std::byte* h, std::byte* c) const = 0;

  virtual std::unique_ptr<Workspace> NewWorkspace() const = 0;

  // Runs all slices; they may differ in steps. Results of a slice do not depend on the other slices beyond rounding.
  // An error leaves every `after` and y undefined. May throw std::bad_alloc, as long as no `after` has been written:
  // then the slices may be run again, fewer at a time.
  virtual absl::Status Advance(std::span<const SequenceSlice> slices, Workspace& workspace) const = 0;

  // Whether Advance waits for something else than this CPU, a device: then it runs on no thread that others wait for.
  virtual bool waits() const { return false; }

  // Bytes of packed weights held by this program (the cell's own not counted).
  virtual int64_t packed_bytes() const = 0;
};

using ProgramPtr = std::shared_ptr<const Program>;

class Engine {
 public:
  virtual ~Engine() = default;
  // What requests, replies and metrics call it: "reference", "cpu", "onednn", "cuda".
  virtual std::string_view name() const = 0;
  // OK, or UNAVAILABLE with the reason if the engine will run nothing any more: its device has failed. Cheap.
  virtual absl::Status InService() const { return absl::OkStatus(); }
  // OK, or UNIMPLEMENTED with the reason in the words of the operator's attributes, or UNAVAILABLE if the engine is out
  // of service.
  virtual absl::Status Supports(const CellSpec& cell, const EngineOptions& options) const = 0;
  // Packs the weights. The program keeps the cell alive as far as it needs it.
  virtual absl::StatusOr<ProgramPtr> Compile(CellPtr cell, const EngineOptions& options) const = 0;
};

}  // namespace rnnserve
