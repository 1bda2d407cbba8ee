// SPDX-License-Identifier: Apache-2.0
// Calls that run on a second engine as well, and are compared (verifier.h).
#include <utility>

#include "server/core/core.h"
#include "server/routing/second_engine.h"
#include "server/routing/verified_reply.h"
#include "server/routing/verifier.h"

namespace rnnserve {

void Core::RunOnTwo(InferRunPtr run, InferDone done) {
  const AcceptedCall& call = run->call();
  InferRunPtr again = OnAnotherEngine(call);
  if (again == nullptr) return Start(std::move(run), std::move(done));
  auto both = std::make_shared<VerifiedReply>(options_.verifier, call.resolved->label,
                                              call.resolved->engine_options.weights, std::move(done));
  Start(std::move(run), [both](absl::StatusOr<InferReply> reply) { both->First(std::move(reply)); });
  Start(std::move(again), [both](absl::StatusOr<InferReply> reply) { both->Second(std::move(reply)); });
}

InferRunPtr Core::OnAnotherEngine(const AcceptedCall& call) {
  const PinnedModelPtr pinned = call.pinned != nullptr ? call.pinned->second : nullptr;
  Routes routes = call.routes;
  bool differ = pinned != nullptr;
  if (call.states && !differ) return nullptr;  // they belong to the programs that made them
  ResolvedModel model = *call.resolved;
  model.label = std::string(kVerifiedModel);
  // What narrow weights cost is seen beside those as given, which other engines need anyway.
  model.engine_options.weights = WeightType::kAsGiven;
  for (size_t layer = 0; layer < routes.size(); ++layer) {
    const Engine* engine = router_.Another(routes[layer].engine, model.cells(layer), model.engine_options);
    if (engine == nullptr) continue;
    routes[layer].engine = engine;
    differ = true;
  }
  if (!differ) return nullptr;
  std::optional<ByteBudget::Share> memory = budget_.Take(call.caller_id, call.bytes);
  if (!memory) return nullptr;
  auto again = std::make_unique<InferRun>(AcceptedCall{call,
                                                       std::make_shared<const ResolvedModel>(std::move(model)),
                                                       call.plan,
                                                       call.load,
                                                       call.bytes,
                                                       *std::move(memory),
                                                       call.takes_long,
                                                       std::move(routes),
                                                       call.verify,
                                                       {},
                                                       pinned});
  if (!call.states) return again;
  again->call().states = StatesFor(*pinned, *call.pinned, *call.states);
  return again->call().states ? std::move(again) : nullptr;
}

}  // namespace rnnserve
