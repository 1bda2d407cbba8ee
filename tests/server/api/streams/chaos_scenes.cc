// SPDX-License-Identifier: Apache-2.0
// One thing at a known moment: the engine stops where a scene says.
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/server/api/streams/chaos.h"

namespace rnnserve {

void Chaos::Scene() {
  Mirror& mirror = AnyMirror();
  const When when = static_cast<When>(dice_.Draw(0, 2));
  const int64_t scene = dice_.Draw(1, 10);
  // Some have a stream of their own, which must not be handed over in the middle.
  const bool has_stream = scene == 3 || scene == 4 || scene == 8 || scene == 9;
  if (hands_over_ && has_stream) return AskAgain(mirror);
  switch (scene) {
    case 1:
      return OtherContent(mirror);
    case 2:
      return AskAgain(mirror);
    case 3:
      return CancelNumbered(mirror, when);
    case 4:
      return CancelUnnumbered(mirror, when);
    case 5:
      return TimeOut(mirror);
    case 6:
      return Unnumbered(mirror);
    case 7:
      return Infer(mirror);
    case 8:
      return OlderOwner(mirror);
    case 9:
      return Join(mirror);
    default:
      return CloseAndReopen(mirror);
  }
}

Planned Chaos::PlanSteps(const Mirror& mirror, const Moment& before) {
  for (;;) {
    Planned planned = PlanChunk(dice_, mirror.key, before, dice_.Draw(1, 5));
    if (!planned.values.empty()) return planned;
  }
}

void Chaos::OtherContent(Mirror& mirror) {
  for (const auto& [number, kept] : mirror.kept) {
    Planned other = PlanSteps(mirror, mirror.now);
    other.operation.set_number(number);
    const std::optional<v1::OperationReply> reply = ApplyOnce(other.operation);
    if (!reply || ReasonOf(reply->status()) != "NUMBER_REUSED") return Wrong(&mirror, "other content was not refused");
    Happened("other content under the same number");
  }
  Look(mirror);
}

void Chaos::AskAgain(Mirror& mirror) {
  const int64_t steps = server_.engine.steps();
  for (const auto& [number, kept] : mirror.kept) {
    const v1::OperationReply reply = Insist(kept.first.operation);
    if (!reply.repeated_reply() || !IsSame(kept.second, reply)) {
      return Wrong(&mirror,
                   absl::StrCat("the repetition of number ", number, " was another reply: ", reply.status().message()));
    }
    Happened("repetitions long after");
  }
  if (server_.engine.steps() != steps) return Wrong(&mirror, "a repetition was computed");
  Look(mirror);
}

void Chaos::CancelNumbered(Mirror& mirror, When when) {
  const Planned planned = PlanSteps(mirror, mirror.now);
  const float x = planned.values.front();
  if (when == When::kDuring) server_.engine.HoldAt(x);
  v1::Operation operation = planned.operation;
  operation.set_request_id(absl::StrCat(++next_request_));
  if (dice_.Chance(50)) {
    StreamClient stream(*control_.recurrent);
    stream.Send({operation});
    if (when == When::kDuring) server_.engine.AwaitHeld();
    if (when == When::kAfter) AwaitApplied(mirror, planned.after.number);
  } else {
    ApplyClient apply(*control_.sessions, operation);
    if (when == When::kDuring) server_.engine.AwaitHeld();
    if (when == When::kAfter) AwaitApplied(mirror, planned.after.number);
  }
  server_.engine.Release();
  if (when == When::kDuring) AwaitApplied(mirror, planned.after.number);  // it runs to its end all the same
  const v1::OperationReply reply = Insist(planned.operation);
  if (when != When::kBefore && !reply.repeated_reply()) return Wrong(&mirror, "a cancelled operation was lost");
  Applied(mirror, planned, reply);
  Happened(when == When::kBefore   ? "cancelled before compute"
           : when == When::kDuring ? "cancelled during compute"
                                   : "cancelled after compute");
}

void Chaos::CancelUnnumbered(Mirror& mirror, When when) {
  if (slices_on_poller() || when == When::kAfter) return Unnumbered(mirror);
  Planned planned = PlanSteps(mirror, mirror.now);
  planned.operation.clear_number();
  // Before compute: others keep both workers.
  std::vector<std::pair<Mirror*, Planned>> others;
  std::vector<std::unique_ptr<ApplyClient>> calls;
  server_.engine.HoldAt(std::nullopt);
  while (when == When::kBefore && others.size() < 2) {
    Mirror& other = AnyMirror();
    if (&other == &mirror || (!others.empty() && others[0].first == &other)) continue;
    others.emplace_back(&other, PlanSteps(other, other.now));
    calls.push_back(std::make_unique<ApplyClient>(*control_.sessions, others.back().second.operation));
    server_.engine.AwaitHeld(static_cast<int>(others.size()));
  }
  const auto flag_before = server_.spy.last();
  {
    ApplyClient call(*control_.sessions, planned.operation);
    while (server_.spy.last() == flag_before) std::this_thread::yield();
    if (when == When::kDuring) server_.engine.AwaitHeld();
    call.Cancel();
    while (!server_.spy.last()->load()) std::this_thread::yield();  // the server knows
    server_.engine.Release();
  }
  for (size_t k = 0; k < others.size(); ++k) {
    calls[k]->Await();
    Applied(*others[k].first, others[k].second, Insist(others[k].second.operation));
  }
  // Behind all that is in flight.
  v1::Operation look;
  look.set_session(mirror.key);
  look.mutable_get_state();
  look.set_request_id(absl::StrCat(++next_request_));
  StreamClient stream(*control_.recurrent);
  stream.Send({look});
  const std::optional<v1::OperationReply> state = stream.Await(look.request_id());
  if (!state) return Wrong(&mirror, "no state");
  if (std::string mistake = Mistake(mirror.now, state->get_state()); !mistake.empty()) {
    return Wrong(&mirror, absl::StrCat("a cancelled operation without a number was applied: ", mistake));
  }
  if (when == When::kDuring) MayCompute(planned, 1);
  Happened(when == When::kBefore ? "unnumbered, cancelled before compute" : "unnumbered, cancelled during compute");
}

void Chaos::TimeOut(Mirror& mirror) {
  const Planned planned = PlanSteps(mirror, mirror.now);
  constexpr absl::Duration kTimeout = absl::Milliseconds(20);
  v1::Operation operation = planned.operation;
  operation.mutable_timeout()->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(kTimeout)));
  server_.engine.HoldAt(planned.values.front());
  MayCompute(planned, 1);
  {
    ApplyClient call(*control_.sessions, operation);
    while (!server_.engine.is_held() && !call.is_over()) std::this_thread::yield();
    const absl::Time held = absl::Now();
    while (absl::Now() - held < kTimeout && !call.is_over()) std::this_thread::yield();
    server_.engine.Release();
    const std::optional<v1::OperationReply> reply = call.Await();
    if (!reply || reply->status().code() != grpc::StatusCode::DEADLINE_EXCEEDED) {
      return Wrong(&mirror, "an operation outlived its timeout");
    }
  }
  Look(mirror);
  const v1::OperationReply reply = Insist(planned.operation);
  if (reply.repeated_reply()) return Wrong(&mirror, "an operation was applied after its timeout");
  Applied(mirror, planned, reply);
  Happened("timed out during compute");
}

void Chaos::Unnumbered(Mirror& mirror) {
  Planned planned = PlanChange(dice_, mirror, mirror.now);
  planned.operation.clear_number();
  const std::optional<v1::OperationReply> reply = ApplyOnce(planned.operation);
  if (!reply) return Wrong(&mirror, "no reply");
  Applied(mirror, planned, *reply);
  mirror.kept.erase(planned.after.number);  // its reply is not kept
  Happened("without a number");
}

// The same cell without a session: the caller carries the state from call to call.
void Chaos::Infer(Mirror& mirror) {
  const Planned chunk = PlanSteps(mirror, mirror.now);
  v1::InferRequest request;
  const v1::OpenRequest open = OpenRemembering(1);
  *request.mutable_operator_() = open.operator_();
  *request.mutable_inputs() = open.weights();
  for (const v1::Tensor& input : chunk.operation.chunk().inputs()) *request.add_inputs() = input;
  *request.add_inputs() = StateMessage(mirror.now.rows).tensors(0);
  request.mutable_options()->set_empty_row_state(v1::INITIAL);
  v1::InferResponse response;
  grpc::ClientContext context;
  const grpc::Status status = control_.recurrent->Infer(&context, request, &response);
  if (!status.ok()) return Wrong(&mirror, status.error_message());
  v1::OperationReply like;  // as a chunk's reply
  *like.mutable_outputs() = response.outputs();
  Planned set;
  set.after = mirror.now;
  set.after.number += 1;
  set.after.rows = chunk.after.rows;
  set.operation.set_session(mirror.key);
  set.operation.set_number(set.after.number);
  v1::StateTensors& state = *set.operation.mutable_set_state()->mutable_state();
  *state.add_tensors() = response.outputs(1);
  state.mutable_tensors(0)->set_name("initial_h");
  set.operation.mutable_set_state()->set_force(true);
  set.values = chunk.values;
  if (RowsOf(state) != chunk.after.rows) return Wrong(&mirror, "Infer gave another state");
  Applied(mirror, set, Insist(set.operation));
  Look(mirror);
  Happened("cut over Infer");
}

void Chaos::OlderOwner(Mirror& mirror) {
  StreamClient old(*control_.recurrent), young(*control_.recurrent);
  const auto send = [&](StreamClient& stream, const Planned& planned) {
    v1::Operation operation = planned.operation;
    operation.set_request_id(absl::StrCat(++next_request_));
    stream.Send({operation});
    return operation.request_id();
  };
  const auto await = [](StreamClient& stream, const std::string& id) {
    return stream.Await(id).value_or(v1::OperationReply());
  };
  const Planned one = PlanSteps(mirror, mirror.now), queued = PlanSteps(mirror, one.after),
                two = PlanSteps(mirror, one.after), three = PlanSteps(mirror, two.after);
  if (slices_on_poller()) {
    Applied(mirror, one, await(old, send(old, one)));
    Applied(mirror, two, await(young, send(young, two)));
  } else {
    server_.engine.HoldAt(one.values.front());
    const std::string id_one = send(old, one), id_queued = send(old, queued);
    server_.engine.AwaitHeld();
    const std::string id_joined = send(young, one), id_two = send(young, two);
    // The queued one goes at once, while the other still computes.
    const std::string reason = ReasonOf(await(old, id_queued).status());
    server_.engine.Release();
    if (reason != "OLDER_OWNER") return Wrong(&mirror, "queued work of an older owner stayed");
    const v1::OperationReply reply = await(old, id_one);
    if (!IsSame(reply, await(young, id_joined))) return Wrong(&mirror, "a new owner joined and got another reply");
    Applied(mirror, one, reply);
    if (wrong_.empty()) Applied(mirror, two, await(young, id_two));
  }
  if (!wrong_.empty()) return;
  if (ReasonOf(await(old, send(old, three)).status()) != "OLDER_OWNER") {
    return Wrong(&mirror, "an older owner was served");
  }
  Applied(mirror, three, await(young, send(young, three)));
  Happened("an older owner refused");
}

void Chaos::Join(Mirror& mirror) {
  const Planned planned = PlanSteps(mirror, mirror.now);
  StreamClient stream(*control_.recurrent);
  std::vector<v1::Operation> twice(2, planned.operation);
  for (v1::Operation& operation : twice) operation.set_request_id(absl::StrCat(++next_request_));
  server_.engine.HoldAt(planned.values.front());
  stream.Send({twice[0]});
  server_.engine.AwaitHeld();
  stream.Send({twice[1]});
  ApplyClient call(*control_.sessions, planned.operation);
  if (!slices_on_poller()) {
    Planned other = PlanSteps(mirror, mirror.now);
    const std::optional<v1::OperationReply> refused = ApplyOnce(other.operation);
    if (!refused || ReasonOf(refused->status()) != "NUMBER_REUSED") Wrong(&mirror, "other content joined");
    other.operation.clear_number();
    const std::optional<v1::OperationReply> alone = ApplyOnce(other.operation);
    if (!alone || ReasonOf(alone->status()) != "OPERATION_IN_FLIGHT") Wrong(&mirror, "unnumbered beside another");
  }
  server_.engine.Release();
  const std::optional<v1::OperationReply> replies[] = {stream.Await(twice[0].request_id()),
                                                       stream.Await(twice[1].request_id()), call.Await()};
  for (const std::optional<v1::OperationReply>& reply : replies) {
    if (!wrong_.empty()) return;
    if (!reply) return Wrong(&mirror, "no reply");
    if (!IsSame(*replies[0], *reply)) return Wrong(&mirror, "a repetition that joined got another reply");
  }
  Applied(mirror, planned, *replies[0]);
  Happened("joined in flight");
}

void Chaos::CloseAndReopen(Mirror& mirror) {
  const Planned close = PlanClose(mirror.key, mirror.now);
  const v1::OperationReply reply = Insist(close.operation);
  Applied(mirror, close, reply);
  if (!wrong_.empty()) return;
  const v1::OperationReply again = Insist(close.operation);
  if (!again.repeated_reply() || !IsSame(reply, again)) return Wrong(&mirror, "Close was not answered again");
  const std::optional<v1::OperationReply> after = ApplyOnce(PlanSteps(mirror, mirror.now).operation);
  if (!after || ReasonOf(after->status()) != "SESSION_ENDED") return Wrong(&mirror, "an operation after Close");
  mirror.checkpoints.clear();
  mirror.kept.clear();
  mirror.now.number = mirror.now.position = 0;
  if (dice_.Chance(40)) mirror.now.rows = Rows(static_cast<size_t>(dice_.Draw(1, 3)), Memory(kRemembered));
  Open(mirror);
}

}  // namespace rnnserve
