// SPDX-License-Identifier: Apache-2.0
// What a pinned model (a session's) needs to be run on a second engine as well (--verify_share).
#pragma once

#include <optional>

#include "server/core/call.h"
#include "server/models/program_cache.h"
#include "server/routing/router.h"

namespace rnnserve {

// `pinned` on another engine, layer by layer; nothing where no layer has one. Packs its weights, so it takes long.
std::optional<PinnedModel> PinOnSecondEngine(const PinnedModel& pinned, const Router& router, ProgramCache& programs);

// `states` of `from`'s programs as `to`'s hold them, by way of the compute type: exact. Nothing if one cannot be read
// or made, on a device that has failed or is full.
std::optional<RunStates> StatesFor(const PinnedModel& to, const PinnedModel& from, const RunStates& states);

}  // namespace rnnserve
