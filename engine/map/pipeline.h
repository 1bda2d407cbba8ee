// SPDX-License-Identifier: Apache-2.0
// A whole model around its recurrent layers: maps before, between and after them, and the tensors as its file calls and
// shapes them. Plain data, made when a file is loaded.
//
//   tokens -> [map 0: Lookup] -> layer 0 -> layer 1 -> [map 2: Product, Softmax] -> probabilities
//                                                \-> Y at the last step -> [rows: Product] -> class
//
// Numbers wait at *places*: what a request brings, what a map or layer gives at every step, or once a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/map/map.h"
#include "engine/tensor.h"

namespace rnnserve {

// A request runs in stages: stage 0 is Pipeline::records, the last one Pipeline::rows, and between them maps and layers
// take turns.
constexpr size_t MapStage(size_t map) { return 2 * map + 1; }
constexpr size_t LayerStage(size_t layer) { return 2 * layer + 2; }

enum class PlaceKind {
  kInput,   // tensor of a request, by step and row
  kStream,  // [T, N, width], kept from the stage that gives it to the last one that takes it
  kRow,     // [N, width]: what is left of a stream at the end of its rows, or what is computed of a row's records
  kFinalH,  // the final state of one direction of a layer, [N, width]
  kFinalC,
};

struct Place {
  PlaceKind kind = PlaceKind::kStream;
  DataType type = DataType::kFloat;
  int64_t width = 0;
  size_t input = 0;       // kInput: of Pipeline::inputs
  size_t layer = 0;       // kFinalH, kFinalC
  int64_t direction = 0;  // likewise
  // kRow: what the file has beyond the end of a row, which a row that ends before the others counts as its other steps.
  // A row without steps is left with it; none: with 0.
  std::vector<double> beyond = {};
  OverTime over_time = OverTime::kEach;  // kRow: as MapUse::Target has it
  // kStream: the last stage that takes it (MapStage, LayerStage).
  size_t last_stage = 0;
};

struct PipelineInput {
  enum class Kind { kSteps, kLengths, kInitialH, kInitialC };
  std::string name = {};
  DataType type = DataType::kFloat;
  Kind kind = Kind::kSteps;
  Shape shape = {};  // as in the file, with kDimT and kDimN
  bool optional = false;
  std::vector<size_t> layers = {};  // of a state: those it is of, one after the other
  int64_t entries = 0;              // of integers: at least -entries and less than it; 0: any
  bool needs_steps = false;         // of lengths: each row has a step, of which something is taken
};

struct PipelineOutput {
  std::string name = {};
  DataType type = DataType::kFloat;
  Shape shape = {};  // as in the file, with kDimT and kDimN
  OverTime over_time = OverTime::kEach;
};

// A map in its place.
struct MapUse {
  struct Target {
    int place = -1;                        // or
    int output = -1;                       // of Pipeline::outputs
    OverTime over_time = OverTime::kEach;  // of a place of kind kRow
  };
  MapPtr map = nullptr;         // null: nothing to do
  std::vector<int> reads = {};  // place of each input
  std::vector<Target> writes = {};
};

// What a layer starts from where the request brings no state, of every row: [D, H] in the layers' type. Empty: zeros.
struct LayerStart {
  std::vector<std::byte> h, c;
};

struct Pipeline {
  std::vector<PipelineInput> inputs;
  std::vector<PipelineOutput> outputs;
  std::vector<Place> places;
  std::vector<MapUse> maps;        // maps[k] runs before layer k, the last one after all of them
  MapUse records;                  // once a row, before all else: of what requests bring of a row and not of each step
  MapUse rows;                     // once a row, at the very end
  std::vector<int> layer_x;        // the place that each layer takes
  std::vector<int> layer_y;        // and gives; -1: nothing takes it
  std::vector<LayerStart> starts;  // of each layer; none: all are zeros
  // Of each layer that starts from what `records` computes: places of kind kRow, [N, D * H]; -1 of others. None at all:
  // there is no such layer. Sessions cannot have these.
  std::vector<int> layer_h, layer_c;

  // In the words of the file, for fingerprints: everything that decides results, the numbers of maps left out.
  std::string CanonicalText() const;
};
using PipelinePtr = std::shared_ptr<const Pipeline>;

}  // namespace rnnserve
