// SPDX-License-Identifier: Apache-2.0
#include "server/routing/second_engine.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace rnnserve {
namespace {

// Null if it could not be read or made.
std::shared_ptr<const State> StateFor(const ProgramPtr& to, const Program& from, const OpSpec& spec,
                                      const State& state) {
  const DataType type = ComputeType(spec.data_type);
  const size_t bytes = static_cast<size_t>(spec.hidden_size) * ByteSize(type);
  std::vector<std::byte> h(bytes), c(bytes);
  from.ExportState(state, type, h.data(), spec.kind == CellKind::kLstm ? c.data() : nullptr);
  if (!state.failure().ok()) return nullptr;
  std::unique_ptr<State> made = to->NewState();
  to->ImportState(type, h.data(), c.data(), *made);
  if (!made->failure().ok()) return nullptr;
  return {made.release(), WipeState{to, type}};
}

}  // namespace

std::optional<PinnedModel> PinOnSecondEngine(const PinnedModel& pinned, const Router& router, ProgramCache& programs) {
  PinnedModel second = pinned;
  second.engine_options.weights = WeightType::kAsGiven;
  bool differs = false;
  for (size_t layer = 0; layer < second.engines.engines.size(); ++layer) {
    const std::vector<CellPtr>& cells = second.cells(layer);
    const Engine* other = router.Another(second.engines.engines[layer], cells, second.engine_options);
    if (other == nullptr) continue;
    second.engines.engines[layer] = other;
    differs = true;
    for (size_t direction = 0; direction < cells.size(); ++direction) {
      absl::StatusOr<ProgramPtr> program = programs.Get(*other, cells[direction], second.engine_options);
      if (!program.ok()) return std::nullopt;
      second.engines.programs[layer][direction] = *std::move(program);
    }
  }
  second.engines.names = EngineNames(second.engines.engines);
  return differs ? std::optional(std::move(second)) : std::nullopt;
}

std::optional<RunStates> StatesFor(const PinnedModel& to, const PinnedModel& from, const RunStates& states) {
  RunStates made = states;
  for (size_t layer = 0; layer < made.size(); ++layer) {
    const size_t rows = made[layer].size() / to.engines.programs[layer].size();
    for (size_t k = 0; k < made[layer].size(); ++k) {
      std::shared_ptr<const State>& state = made[layer][k];
      const size_t direction = k / rows;
      const ProgramPtr& program = to.engines.programs[layer][direction];
      if (state == nullptr || program == from.engines.programs[layer][direction]) continue;
      state = StateFor(program, *from.engines.programs[layer][direction], to.model->stack().layers[layer], *state);
      if (state == nullptr) return std::nullopt;
    }
  }
  return made;
}

}  // namespace rnnserve
