// SPDX-License-Identifier: Apache-2.0
// One step of a model before it gets its name: engines are chosen, weights packed, every stage runs once. What cannot
// run is refused where it is loaded, and the first call of a version is as fast as later ones.
#include <algorithm>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/out_of_memory.h"
#include "base/steady_now.h"
#include "server/core/core.h"
#include "server/core/target.h"
#include "server/telemetry/log.h"

namespace rnnserve {
namespace {

// Time for the step, waiting included.
constexpr absl::Duration kMostTime = absl::Seconds(10);

// What a request of one row and one step brings: zeros, and lengths of 1.
class OneStep {
 public:
  explicit OneStep(const StackSpec& stack) {
    for (const TensorSignature& input : DataInputs(stack)) {
      if (!input.optional) Add(input, IsLengths(stack, input.name));
    }
  }
  const std::vector<NamedTensor>& inputs() const { return inputs_; }

 private:
  static bool IsLengths(const StackSpec& stack, const std::string& name) {
    return stack.file_inputs() != nullptr && std::ranges::any_of(*stack.file_inputs(), [&](const PipelineInput& input) {
             return input.name == name && input.kind == PipelineInput::Kind::kLengths;
           });
  }

  void Add(const TensorSignature& input, bool is_lengths) {
    Shape shape = input.shape;
    for (int64_t& dimension : shape) dimension = std::max<int64_t>(dimension, 1);  // T and N
    std::vector<std::byte>& bytes = storage_.emplace_back(static_cast<size_t>(NumBytes(input.type, shape).value_or(0)));
    if (is_lengths && !bytes.empty()) bytes[0] = std::byte{1};  // an integer, little-endian
    inputs_.push_back({input.name, {input.type, std::move(shape), bytes}});
  }

  std::deque<std::vector<std::byte>> storage_;
  std::vector<NamedTensor> inputs_;
};

// Says nothing about the model: the server is short of something, or an engine is out of service.
bool IsOfServer(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status);
}

}  // namespace

absl::Status Core::WarmUp(LoadedModel& loaded) {
  const absl::Time began = SteadyNow();
  const absl::StatusOr<std::string> engines = OrOutOfMemory([&] { return RunOneStep(loaded); });
  if (engines.ok()) {
    loaded.warm_up =
        absl::StrCat(*engines, ", ", absl::FormatDuration(absl::Floor(SteadyNow() - began, absl::Microseconds(10))));
    return absl::OkStatus();
  }
  if (!IsOfServer(engines.status())) return engines.status();
  loaded.warm_up = absl::StrCat("none: ", engines.status().message());
  LogWarning(absl::StrCat("model ", loaded.name, " is loaded without a warm-up: ", engines.status().message()));
  return absl::OkStatus();
}

absl::StatusOr<std::string> Core::RunOneStep(const LoadedModel& loaded) {
  const RouteLoad load = {.rows = 1, .steps = 1};
  absl::StatusOr<PinnedModel> found = PinResolved(ResolveLoaded(loaded), load);
  if (!found.ok()) return found.status();
  const std::string names = found->engines.names;
  const auto pinned = std::make_shared<const PinnedModel>(*std::move(found));
  const OneStep step(pinned->model->stack());
  InferCall call;
  call.inputs = step.inputs();
  call.deadline = SteadyNow() + kMostTime;
  absl::StatusOr<RunPlan> plan = Plan(*pinned, call.inputs, {});
  // A request of zeros means nothing to some models.
  if (!plan.ok()) return absl::StrCat(names, " packed; no step: ", plan.status().message());
  absl::StatusOr<InferRunPtr> accepted = AcceptPinned(pinned, *std::move(plan), call);
  if (!accepted.ok()) return accepted.status();
  const auto ended = std::make_shared<std::promise<absl::Status>>();  // the worker may use it after `get`
  std::future<absl::Status> ran = ended->get_future();
  Run(*std::move(accepted), [ended](absl::StatusOr<InferReply> reply) {
    const absl::Status status = std::exchange(reply, absl::CancelledError()).status();  // its memory goes first
    ended->set_value(status);
  });
  if (absl::Status status = ran.get(); !status.ok()) return status;
  return names;
}

}  // namespace rnnserve
