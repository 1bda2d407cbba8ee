// SPDX-License-Identifier: Apache-2.0
#include "server/core/map_run.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "engine/float16.h"

namespace rnnserve {
namespace {

int64_t Size(const Place& place) { return static_cast<int64_t>(ByteSize(place.type)); }

bool IsFinal(const Place& place) { return place.kind == PlaceKind::kFinalH || place.kind == PlaceKind::kFinalC; }

// Both directions of a layer's state lie together.
int64_t StateWidth(const StackSpec& stack, const Place& place) {
  const OpSpec& spec = stack.layers[place.layer];
  return spec.directions() * spec.hidden_size;
}

// INT64_MAX if it cannot be counted.
int64_t BytesOf(const StackSpec& stack, const RunPlan& plan, const Place& place) {
  if (place.kind == PlaceKind::kInput) return 0;
  const int64_t width = IsFinal(place) ? StateWidth(stack, place) : place.width;
  const Shape shape = place.kind == PlaceKind::kStream ? Shape{plan.steps, plan.rows, width} : Shape{plan.rows, width};
  return NumBytes(place.type, shape).value_or(std::numeric_limits<int64_t>::max());
}

int64_t Sum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

// The place whose memory this one shares: that of the same layer's first direction.
int HomeOf(const Pipeline& pipeline, int place) {
  const Place& wanted = pipeline.places[static_cast<size_t>(place)];
  if (!IsFinal(wanted)) return place;
  const auto is_home = [&](const Place& other) { return other.kind == wanted.kind && other.layer == wanted.layer; };
  return static_cast<int>(std::ranges::find_if(pipeline.places, is_home) - pipeline.places.begin());
}

int FindFinal(const Pipeline& pipeline, PlaceKind kind, size_t layer) {
  const auto is_it = [&](const Place& place) { return place.kind == kind && place.layer == layer; };
  const auto found = std::ranges::find_if(pipeline.places, is_it);
  return found == pipeline.places.end() ? -1 : static_cast<int>(found - pipeline.places.begin());
}

constexpr double kMostInteger = 9007199254740992.0;  // 2^53

// How a row walks through a tensor whose axes are in any order, as long as those of a step's numbers that come before T
// or N are neighbours.
template <typename Place>
void Walk(const Shape& axes, const Shape& sizes, DataType type, int64_t row, Place& place) {
  auto stride = static_cast<std::ptrdiff_t>(ByteSize(type));
  bool inside = true;  // behind T and N
  for (size_t axis = axes.size(); axis-- > 0;) {
    if (axes[axis] == kDimT) {
      place.step = stride;
      inside = false;
    } else if (axes[axis] == kDimN) {
      place.first += row * stride;
      inside = false;
    } else if (!inside && axes[axis] > 1) {
      if (place.groups == 1) place.group = stride;
      place.groups *= axes[axis];
    }
    stride *= sizes[axis];
  }
}

}  // namespace

MapRun::MapRun(const StackSpec& stack, const RunPlan& plan, std::span<std::byte* const> outputs,
               std::vector<ProgramPtr> programs)
    : stack_(stack),
      pipeline_(*stack.pipeline),
      plan_(plan),
      outputs_(outputs),
      programs_(std::move(programs)),
      memory_(pipeline_.places.size()) {}

const MapUse& MapRun::UseOf(size_t stage) const {
  return stage == 0 ? pipeline_.records : stage + 1 == stages() ? pipeline_.rows : pipeline_.maps[stage / 2];
}

bool MapRun::has_work(size_t stage) const {
  if (UseOf(stage).map == nullptr || plan_.rows == 0) return false;
  return is_once(stage) || std::ranges::any_of(plan_.lengths, [](int64_t length) { return length > 0; });
}

std::byte* MapRun::Room(int place) {
  const auto home = static_cast<size_t>(HomeOf(pipeline_, place));
  const Place& owner = pipeline_.places[home];
  std::unique_ptr<std::byte[]>& memory = memory_[home];
  if (memory == nullptr) {
    const auto bytes = static_cast<size_t>(BytesOf(stack_, plan_, owner));
    // Of a stream only the steps within a row's length are written and read; what is left of a row without steps is 0.
    memory = owner.kind == PlaceKind::kStream ? std::make_unique_for_overwrite<std::byte[]>(bytes)
                                              : std::make_unique<std::byte[]>(bytes);
    if (!owner.beyond.empty()) BeginBeyond(owner, memory.get());
  }
  return memory.get();
}

void MapRun::BeginBeyond(const Place& place, std::byte* memory) const {
  std::vector<double> all;
  for (int64_t row = 0; row < plan_.rows; ++row) {
    if (StepsBeyond(row) == 0) continue;
    all = place.beyond;
    if (place.over_time == OverTime::kSum) {
      for (double& number : all) number *= static_cast<double>(StepsBeyond(row));
    }
    std::byte* to = memory + row * place.width * Size(place);
    if (IsFloating(place.type)) {
      ConvertElements(DataType::kDouble, reinterpret_cast<const std::byte*>(all.data()), place.type, to, all.size());
      continue;
    }
    for (const double number : all) {
      const auto integer = static_cast<int64_t>(std::clamp(number, -kMostInteger, kMostInteger));
      std::memcpy(to, &integer, sizeof integer);
      to += sizeof integer;
    }
  }
}

MapRow::In MapRun::Source(int place, int64_t row) {
  const Place& from = pipeline_.places[static_cast<size_t>(place)];
  const int64_t bytes = from.width * Size(from);
  if (from.kind == PlaceKind::kInput) {
    const TensorView& tensor = plan_.data[from.input];
    MapRow::In in = {.first = tensor.data.data()};
    Walk(pipeline_.inputs[from.input].shape, tensor.shape, tensor.type, row, in);
    return in;
  }
  const std::byte* memory = Room(place);
  if (from.kind == PlaceKind::kStream) return {memory + row * bytes, plan_.rows * bytes};
  if (from.kind == PlaceKind::kRow) return {memory + row * bytes, 0};
  const OpSpec& spec = stack_.layers[from.layer];
  const int64_t place_of_row =
      spec.batch_first() ? row * spec.directions() + from.direction : from.direction * plan_.rows + row;
  return {memory + place_of_row * bytes, 0};
}

MapRow::Out MapRun::ToPlace(const MapUse::Target& target, int64_t row) {
  const Place& to = pipeline_.places[static_cast<size_t>(target.place)];
  const int64_t bytes = to.width * Size(to);
  std::byte* memory = Room(target.place) + row * bytes;
  if (to.kind == PlaceKind::kStream) return {.first = memory, .step = plan_.rows * bytes};
  const int64_t beyond = to.beyond.empty() ? 0 : StepsBeyond(row);
  if (target.over_time != OverTime::kLastOfAll)
    return {.first = memory, .over_time = target.over_time, .begun = beyond};
  return beyond > 0 ? MapRow::Out{} : MapRow::Out{.first = memory, .over_time = OverTime::kLast};
}

MapRow::Out MapRun::ToOutput(int output, int64_t row) const {
  const auto is_it = [&](const OutputPlan& planned) { return planned.number == static_cast<size_t>(output); };
  const auto found = std::ranges::find_if(plan_.outputs, is_it);
  if (found == plan_.outputs.end()) return {};
  MapRow::Out out = {.first = outputs_[static_cast<size_t>(found - plan_.outputs.begin())]};
  Walk(pipeline_.outputs[static_cast<size_t>(output)].shape, found->shape, found->type, row, out);
  return out;
}

SequenceTasks MapRun::Start(size_t stage) {
  SequenceTasks tasks;
  const MapUse& use = UseOf(stage);
  const size_t maps = pipeline_.maps.size();
  const ProgramPtr& program = programs_[stage == 0 ? maps + 1 : stage + 1 == stages() ? maps : stage / 2];
  const bool once = is_once(stage);
  for (int64_t row = 0; row < plan_.rows; ++row) {
    const int64_t steps = once ? 1 : plan_.lengths[static_cast<size_t>(row)];
    if (steps == 0) continue;
    std::unique_ptr<State> state = program->NewState();
    auto& places = static_cast<MapRow&>(*state);
    for (size_t k = 0; k < use.reads.size(); ++k) places.in[k] = Source(use.reads[k], row);
    for (size_t k = 0; k < use.writes.size(); ++k) {
      const MapUse::Target& target = use.writes[k];
      places.out[k] = target.place >= 0 ? ToPlace(target, row) : ToOutput(target.output, row);
    }
    SequenceSlice slice;
    slice.steps = steps;
    slice.after = state.get();
    tasks.push_back({program, slice, use.map->Work()});
    rows_.push_back(std::move(state));
  }
  return tasks;
}

Between MapRun::LayerMemory(size_t stage) {
  const size_t layer = this->layer(stage);
  Between memory;
  if (plan_.rows == 0) return memory;
  const int x = pipeline_.layer_x[layer], y = pipeline_.layer_y[layer];
  const Place& from = pipeline_.places[static_cast<size_t>(x)];
  if (from.kind == PlaceKind::kInput) {
    memory.x = plan_.data[from.input].data.data();
    memory.x_rows_first = pipeline_.inputs[from.input].shape[0] == kDimN;
  } else {
    memory.x = Room(x);
  }
  if (y >= 0) memory.y = Room(y);
  if (const int h = FindFinal(pipeline_, PlaceKind::kFinalH, layer); h >= 0) memory.final_h = Room(h);
  if (const int c = FindFinal(pipeline_, PlaceKind::kFinalC, layer); c >= 0) memory.final_c = Room(c);
  if (pipeline_.layer_h.empty()) return memory;
  if (const int h = pipeline_.layer_h[layer]; h >= 0) memory.initial_h = Room(h);
  if (const int c = pipeline_.layer_c[layer]; c >= 0) memory.initial_c = Room(c);
  return memory;
}

void MapRun::Finish(size_t stage) {
  rows_.clear();
  for (size_t k = 0; k < memory_.size(); ++k) {
    const Place& place = pipeline_.places[k];
    if (place.kind == PlaceKind::kStream && place.last_stage <= stage) memory_[k].reset();
  }
}

int64_t PlaceBytes(const StackSpec& stack, const RunPlan& plan) {
  if (stack.pipeline == nullptr) return 0;
  const Pipeline& pipeline = *stack.pipeline;
  int64_t kept = 0;
  std::vector<int64_t> streams(LayerStage(stack.layers.size()) + 1);  // alive at each stage
  std::vector<size_t> first_stage(pipeline.places.size());
  for (size_t k = 0; k < pipeline.maps.size(); ++k) {
    for (const MapUse::Target& target : pipeline.maps[k].writes) {
      if (target.place >= 0) first_stage[static_cast<size_t>(target.place)] = MapStage(k);
    }
    if (k < pipeline.layer_y.size() && pipeline.layer_y[k] >= 0) {
      first_stage[static_cast<size_t>(pipeline.layer_y[k])] = LayerStage(k);
    }
  }
  for (size_t k = 0; k < pipeline.places.size(); ++k) {
    const Place& place = pipeline.places[k];
    const int64_t bytes = BytesOf(stack, plan, place);
    if (place.kind != PlaceKind::kStream) {
      kept = Sum(kept, HomeOf(pipeline, static_cast<int>(k)) == static_cast<int>(k) ? bytes : 0);
      continue;
    }
    for (size_t stage = first_stage[k]; stage <= place.last_stage && stage < streams.size(); ++stage) {
      streams[stage] = Sum(streams[stage], bytes);
    }
  }
  return Sum(kept, *std::ranges::max_element(streams));
}

}  // namespace rnnserve
