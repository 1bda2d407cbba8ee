// SPDX-License-Identifier: Apache-2.0
#include "tests/server/api/streams/mirror.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/api/native/operator_codec.h"

namespace rnnserve {
namespace {

constexpr float kPadding = -1;  // must never be computed

void SetTensor(v1::Tensor& tensor, const std::string& name, std::vector<int64_t> shape,
               const std::vector<float>& values) {
  tensor.set_name(name);
  tensor.set_data_type(v1::FLOAT);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  tensor.set_raw(values.data(), values.size() * sizeof(float));
}

std::vector<float> ValuesOf(const v1::Tensor& tensor) {
  std::vector<float> values(tensor.raw().size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), tensor.raw().data(), values.size() * sizeof(float));
  return values;
}

std::vector<float> Flat(const Rows& rows) {
  std::vector<float> values;
  for (const Memory& row : rows) values.insert(values.end(), row.slots().begin(), row.slots().end());
  return values;
}

Planned Next(const std::string& key, const Moment& before) {
  Planned planned;
  planned.after = before;
  ++planned.after.number;
  planned.operation.set_session(key);
  planned.operation.set_number(planned.after.number);
  return planned;
}

Rows FreshRows(Dice& dice, size_t count) {
  Rows rows(count, Memory(kRemembered));
  for (Memory& row : rows) {
    for (int64_t k = dice.Draw(0, 3); k > 0; --k) row.Step(dice.FreshValue());
  }
  return rows;
}

}  // namespace

v1::OpenRequest OpenRemembering(int64_t rows) {
  v1::OpenRequest request;
  EncodeOperator(RememberingOperator(kRemembered), *request.mutable_operator_());
  for (const OwnedTensor& tensor : RememberingWeights(kRemembered)) {
    v1::Tensor& message = *request.add_weights();
    message.set_name(tensor.name);
    message.set_data_type(v1::FLOAT);
    message.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
    message.set_raw(tensor.bytes.data(), tensor.bytes.size());
  }
  request.set_rows(rows);
  return request;
}

v1::StateTensors StateMessage(const Rows& rows) {
  v1::StateTensors state;
  SetTensor(*state.add_tensors(), "initial_h", {1, static_cast<int64_t>(rows.size()), kRemembered}, Flat(rows));
  return state;
}

Rows RowsOf(const v1::StateTensors& state) {
  const std::vector<float> values = ValuesOf(state.tensors(0));
  Rows rows;
  for (auto at = values.begin(); at != values.end(); at += kRemembered) {
    rows.emplace_back(std::vector<float>(at, at + kRemembered));
  }
  return rows;
}

Planned PlanChunk(Dice& dice, const std::string& key, const Moment& before, int64_t steps) {
  Planned planned = Next(key, before);
  Rows& rows = planned.after.rows;
  const size_t count = rows.size();
  std::vector<int32_t> lengths(count, static_cast<int32_t>(steps));
  v1::Chunk& chunk = *planned.operation.mutable_chunk();
  const bool ragged = count > 1 && dice.Chance(50);
  if (ragged) {
    for (int32_t& length : lengths) length = static_cast<int32_t>(dice.Draw(0, steps));
    v1::Tensor& tensor = *chunk.add_inputs();
    tensor.set_name("sequence_lens");
    tensor.set_data_type(v1::INT32);
    tensor.add_shape(static_cast<int64_t>(count));
    tensor.set_raw(lengths.data(), lengths.size() * sizeof(int32_t));
  }
  std::vector<float> x;
  for (int64_t t = 0; t < steps; ++t) {
    std::vector<float>& y = planned.y.emplace_back();
    for (size_t row = 0; row < count; ++row) {
      const bool runs = t < lengths[row];
      x.push_back(runs ? dice.FreshValue() : kPadding);
      if (runs) {
        rows[row].Step(x.back());
        planned.values.push_back(x.back());
      }
      const std::vector<float> zeros(kRemembered);
      const std::vector<float>& slots = runs ? rows[row].slots() : zeros;
      y.insert(y.end(), slots.begin(), slots.end());
    }
  }
  SetTensor(*chunk.add_inputs(), "X", {steps, static_cast<int64_t>(count), 1}, x);
  planned.after.position += static_cast<uint64_t>(steps);
  planned.outputs = {"Y", "Y_h"};
  if (dice.Chance(40)) {
    chunk.set_override_outputs(true);
    if (dice.Chance(50)) {
      planned.outputs = {"Y_h"};
      chunk.add_outputs("Y_h");
    } else {
      planned.outputs.clear();
    }
  }
  return planned;
}

Planned PlanChange(Dice& dice, const Mirror& mirror, const Moment& before) {
  const int64_t kind = dice.Draw(1, 100);
  Planned planned = Next(mirror.key, before);
  const size_t count = before.rows.size();
  if (kind <= 4) {
    planned.after.position = 0;
    planned.after.rows = Rows(count, Memory(kRemembered));
    v1::Reset& reset = *planned.operation.mutable_reset();
    if (dice.Chance(50)) {
      planned.after.rows = FreshRows(dice, count);
      *reset.mutable_state() = StateMessage(planned.after.rows);
    }
    return planned;
  }
  if (kind <= 9) {
    planned.after.rows = FreshRows(dice, count);
    *planned.operation.mutable_set_state()->mutable_state() = StateMessage(planned.after.rows);
    planned.operation.mutable_set_state()->set_force(true);
    return planned;
  }
  if (kind <= 18) {
    planned.after.rows.clear();
    for (int64_t k = dice.Draw(1, 3); k > 0; --k) {
      const int64_t row = dice.Draw(0, static_cast<int64_t>(count) - 1);
      planned.operation.mutable_select_rows()->add_rows(row);
      planned.after.rows.push_back(before.rows[static_cast<size_t>(row)]);
    }
    return planned;
  }
  if (kind <= 30 && !mirror.checkpoints.empty()) {
    auto checkpoint = mirror.checkpoints.begin();
    std::advance(checkpoint, dice.Draw(0, static_cast<int64_t>(mirror.checkpoints.size()) - 1));
    planned.operation.mutable_rewind()->set_checkpoint(checkpoint->first);
    planned.after.rows = checkpoint->second.rows;
    planned.after.position = checkpoint->second.position;
    return planned;
  }
  return PlanChunk(dice, mirror.key, before, dice.Chance(10) ? 0 : dice.Draw(1, 6));
}

Planned PlanClose(const std::string& key, const Moment& before) {
  Planned planned = Next(key, before);
  planned.operation.mutable_close()->set_return_state(true);
  planned.closes = true;
  return planned;
}

std::string Mistake(const Planned& planned, const v1::OperationReply& reply) {
  const Moment& after = planned.after;
  if (reply.status().code() != 0) return absl::StrCat("status ", reply.status().code(), ": ", reply.status().message());
  if (reply.session() != planned.operation.session()) return "another session's key";
  if (reply.number() != after.number) return absl::StrCat("number ", reply.number());
  if (reply.last_applied() != after.number || reply.next_expected() != after.number + 1) {
    return absl::StrCat("last_applied ", reply.last_applied(), ", next_expected ", reply.next_expected());
  }
  if (reply.position() != after.position) return absl::StrCat("position ", reply.position());
  if (static_cast<size_t>(reply.outputs_size()) != planned.outputs.size()) return "other outputs";
  for (int k = 0; k < reply.outputs_size(); ++k) {
    const v1::Tensor& output = reply.outputs(k);
    if (output.name() != planned.outputs[static_cast<size_t>(k)]) return absl::StrCat("output ", output.name());
    std::vector<float> want = Flat(after.rows);
    if (output.name() == "Y") {
      want.clear();
      for (const std::vector<float>& step : planned.y) want.insert(want.end(), step.begin(), step.end());
    }
    if (ValuesOf(output) != want) return absl::StrCat("other values in ", output.name());
  }
  if (planned.closes && RowsOf(reply.final_state()) != after.rows) return "another final state";
  return "";
}

std::string Mistake(const Moment& moment, const v1::GetStateResponse& reply) {
  if (reply.number() != moment.number) return absl::StrCat("number ", reply.number(), ", not ", moment.number);
  if (reply.position() != moment.position)
    return absl::StrCat("position ", reply.position(), ", not ", moment.position);
  if (RowsOf(reply.state()) != moment.rows) return absl::StrCat("another state after number ", moment.number);
  return "";
}

bool IsSame(const v1::OperationReply& first, const v1::OperationReply& repetition) {
  v1::OperationReply a = first, b = repetition;
  for (v1::OperationReply* reply : {&a, &b}) {
    reply->clear_request_id();
    reply->clear_repeated_reply();
  }
  return a.SerializeAsString() == b.SerializeAsString();
}

}  // namespace rnnserve
