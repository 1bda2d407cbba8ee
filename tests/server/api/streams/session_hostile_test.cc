// SPDX-License-Identifier: Apache-2.0
// Bad values in every field of every message of sessions, by Apply and by Stream: whatever comes, the answer says what
// is wrong, the session is as it was or as the reply says, and others notice nothing.
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/server/api/streams/mirror.h"
#include "tests/server/api/streams/session_server.h"

namespace rnnserve {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Change = std::function<void(Message&)>;

template <typename T>
void AddNumbers(std::vector<Change>& changes, const FieldDescriptor* field,
                void (Reflection::*set)(Message*, const FieldDescriptor*, T) const) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values = {T(0), T(1), T(-1), Limits::max(), Limits::lowest(), T(1) << 30};
  for (const T value : values) {
    changes.push_back([=](Message& message) { (message.GetReflection()->*set)(&message, field, value); });
  }
}

// What may be in a field instead. Of repeated fields: too few, too many, the same twice.
std::vector<Change> ChangesOf(const FieldDescriptor* field) {
  std::vector<Change> changes;
  changes.push_back([=](Message& message) { message.GetReflection()->ClearField(&message, field); });
  if (field->is_repeated()) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      for (const int more : {1, 100}) {
        changes.push_back([=](Message& message) {
          const Reflection& reflection = *message.GetReflection();
          for (int k = 0; k < more; ++k) {
            Message* const added = reflection.AddMessage(&message, field);
            if (!field->is_map() && k % 2 == 0) added->CopyFrom(reflection.GetRepeatedMessage(message, field, 0));
          }
        });
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      for (const std::string& text : {std::string(), std::string("?"), std::string(200'000, 'n')}) {
        changes.push_back([=](Message& message) {
          for (int k = 0; k < 3; ++k) message.GetReflection()->AddString(&message, field, text);
        });
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
      for (const int64_t value : {int64_t{-1}, int64_t{0}, int64_t{3}, std::numeric_limits<int64_t>::max()}) {
        for (const int more : {1, 5000}) {
          changes.push_back([=](Message& message) {
            for (int k = 0; k < more; ++k) message.GetReflection()->AddInt64(&message, field, value);
          });
        }
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) {
      changes.push_back([=](Message& message) { message.GetReflection()->AddFloat(&message, field, 1); });
    }
    return changes;
  }
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      AddNumbers<int32_t>(changes, field, &Reflection::SetInt32);
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      AddNumbers<int64_t>(changes, field, &Reflection::SetInt64);
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      AddNumbers<uint64_t>(changes, field, &Reflection::SetUInt64);
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      changes.push_back([=](Message& message) { message.GetReflection()->SetBool(&message, field, true); });
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      for (const int value : {0, 1, 7, 9999, -1}) {
        changes.push_back([=](Message& message) { message.GetReflection()->SetEnumValue(&message, field, value); });
      }
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      for (const std::string& text : {std::string(), std::string("?"), std::string("\xff\xfe\x00", 3),
                                      std::string(129, 'n'), std::string(200'000, 'n')}) {
        changes.push_back([=](Message& message) { message.GetReflection()->SetString(&message, field, text); });
      }
      break;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      changes.push_back([=](Message& message) { message.GetReflection()->MutableMessage(&message, field)->Clear(); });
      break;
    default:
      break;
  }
  return changes;
}

// Calls `visit` with each variant of `root` in which one field of one message in it is changed.
void ForEachChange(const Message& root, const std::function<void(const Message&, const std::string& what)>& visit) {
  // The way to a message in the root: fields, with an index where they are repeated.
  using Way = std::vector<std::pair<const FieldDescriptor*, int>>;
  const std::function<void(const Message&, const Way&, const std::string&)> walk =
      [&](const Message& at, const Way& way, const std::string& path) {
        const Reflection& reflection = *at.GetReflection();
        for (int k = 0; k < at.GetDescriptor()->field_count(); ++k) {
          const FieldDescriptor* const field = at.GetDescriptor()->field(k);
          int index = 0;
          for (const Change& change : ChangesOf(field)) {
            const std::unique_ptr<Message> variant(root.New());
            variant->CopyFrom(root);
            Message* target = variant.get();
            for (const auto& [step, element] : way) {
              const Reflection& of = *target->GetReflection();
              target = element < 0 ? of.MutableMessage(target, step) : of.MutableRepeatedMessage(target, step, element);
            }
            if (field->is_repeated() && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map() &&
                reflection.FieldSize(at, field) == 0) {
              reflection.AddMessage(target, field);
            }
            change(*target);
            visit(*variant, absl::StrCat(path, field->name(), " #", index++));
          }
          if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_map()) continue;
          if (field->is_repeated()) {
            for (int element = 0; element < reflection.FieldSize(at, field); ++element) {
              Way deeper = way;
              deeper.emplace_back(field, element);
              walk(reflection.GetRepeatedMessage(at, field, element), deeper, absl::StrCat(path, field->name(), "."));
            }
          } else if (reflection.HasField(at, field)) {
            Way deeper = way;
            deeper.emplace_back(field, -1);
            walk(reflection.GetMessage(at, field), deeper, absl::StrCat(path, field->name(), "."));
          }
        }
      };
  walk(root, {}, "");
}

class SessionHostile : public testing::Test {
 protected:
  SessionHostile() : caller_(server_.server->ports()[0]) {
    witness_ = Open();
    stream_ = std::make_unique<StreamClient>(*caller_.recurrent);
  }

  std::string Open() {
    v1::OpenResponse response;
    grpc::ClientContext context;
    const grpc::Status status = caller_.sessions->Open(&context, OpenRemembering(2), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.session();
  }
  // One session with two chunks and a checkpoint behind it.
  Mirror Start() {
    Mirror mirror;
    mirror.key = Open();
    mirror.now.rows = Rows(2, Memory(kRemembered));
    for (int k = 0; k < 2; ++k) {
      const Planned planned = PlanChunk(dice_, mirror.key, mirror.now, 3);
      const std::optional<v1::OperationReply> reply = ApplyClient(*caller_.sessions, planned.operation).Await();
      EXPECT_EQ(Mistake(planned, reply.value_or(v1::OperationReply())), "");
      mirror.now = planned.after;
    }
    v1::CheckpointRequest checkpoint;
    checkpoint.set_session(mirror.key);
    checkpoint.set_name("c");
    v1::CheckpointResponse response;
    grpc::ClientContext context;
    EXPECT_TRUE(caller_.sessions->Checkpoint(&context, checkpoint, &response).ok());
    return mirror;
  }
  // The valid operation of each kind that comes next.
  std::vector<v1::Operation> Kinds(const Mirror& mirror) {
    std::vector<v1::Operation> kinds;
    const auto add = [&](bool is_change) -> v1::Operation& {
      v1::Operation& operation = kinds.emplace_back();
      operation.set_session(mirror.key);
      operation.set_request_id("r");
      if (is_change) operation.set_number(mirror.now.number + 1);
      return operation;
    };
    v1::Chunk chunk = PlanChunk(dice_, mirror.key, mirror.now, 3).operation.chunk();
    if (chunk.inputs_size() < 2) {  // with lengths
      v1::Tensor& lengths = *chunk.add_inputs();
      lengths.set_name("sequence_lens");
      lengths.set_data_type(v1::INT32);
      lengths.add_shape(2);
      lengths.add_int32_data(3);
      lengths.add_int32_data(1);
    }
    *add(true).mutable_chunk() = chunk;
    *add(true).mutable_reset()->mutable_state() = StateMessage(mirror.now.rows);
    *add(true).mutable_set_state()->mutable_state() = StateMessage(mirror.now.rows);
    kinds.back().mutable_set_state()->set_force(true);
    add(true).mutable_select_rows()->add_rows(1);
    add(true).mutable_rewind()->set_checkpoint("c");
    add(true).mutable_close()->set_return_state(true);
    *add(false).mutable_open() = OpenRemembering(2);
    kinds.back().clear_session();
    add(false).mutable_get_state()->set_after_number(2);
    add(false).mutable_fork()->set_count(2);
    add(false).mutable_checkpoint()->set_name("d");
    return kinds;
  }

  void ExpectSane(int code, const std::string& message) {
    const std::set<int> own = {grpc::OK,
                               grpc::INVALID_ARGUMENT,
                               grpc::NOT_FOUND,
                               grpc::ABORTED,
                               grpc::OUT_OF_RANGE,
                               grpc::FAILED_PRECONDITION,
                               grpc::ALREADY_EXISTS,
                               grpc::RESOURCE_EXHAUSTED,
                               grpc::UNIMPLEMENTED,
                               grpc::DEADLINE_EXCEEDED,
                               grpc::DATA_LOSS};
    EXPECT_TRUE(own.count(code) > 0) << code << ": " << message;
    EXPECT_EQ(code == grpc::OK, message.empty());
    ++codes_[code];
  }
  // The session is as it was, or as its operation, which was applied, left it; and others are as ever.
  void ExpectIntact(const Mirror& mirror, bool applied) {
    v1::GetStateRequest request;
    request.set_session(mirror.key);
    v1::GetStateResponse response;
    grpc::ClientContext context;
    const grpc::Status status = caller_.sessions->GetState(&context, request, &response);
    if (applied) {
      EXPECT_TRUE(!status.ok() || response.number() == mirror.now.number + 1) << response.number();
    } else {
      ASSERT_TRUE(status.ok()) << status.error_message();
      EXPECT_EQ(Mistake(mirror.now, response), "");
    }
  }
  void ExpectWitness() {
    Planned planned = PlanChunk(dice_, witness_, witness_now_, 2);
    planned.operation.set_request_id(absl::StrCat("w", planned.after.number));
    stream_->Send({planned.operation});
    const std::optional<v1::OperationReply> reply = stream_->Await(planned.operation.request_id());
    ASSERT_TRUE(reply);
    ASSERT_EQ(Mistake(planned, *reply), "");
    witness_now_ = planned.after;
  }

  SessionServer server_;
  CallerConnection caller_;
  Dice dice_{1};
  std::unique_ptr<StreamClient> stream_;
  std::string witness_;
  Moment witness_now_{0, 0, Rows(2, Memory(kRemembered))};
  std::map<int, int> codes_;
};

TEST_F(SessionHostile, EveryFieldOfEveryOperation) {
  int variants = 0;
  for (size_t kind = 0; kind < Kinds({.key = "", .now = witness_now_, .checkpoints = {}, .kept = {}}).size(); ++kind) {
    Mirror mirror = Start();
    const v1::Operation valid = Kinds(mirror)[kind];
    ForEachChange(valid, [&](const Message& message, const std::string& what) {
      SCOPED_TRACE(absl::StrCat("kind ", valid.kind_case(), " ", what));
      auto operation = static_cast<const v1::Operation&>(message);
      std::optional<v1::OperationReply> reply;
      const bool is_text =
          operation.request_id().size() < 1000 && operation.request_id().find('\xff') == std::string::npos;
      // Odd ones over a stream of their own: a message that is not one ends its stream.
      if (++variants % 2 == 0 || !is_text) {
        ApplyClient call(*caller_.sessions, operation);
        reply = call.Await();
        if (!reply) return ExpectIntact(mirror, false);
      } else {
        StreamClient stream(*caller_.recurrent);
        stream.Send({operation});
        reply = stream.Await(operation.request_id());
        if (!reply) {
          const grpc::Status status = stream.End();
          EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << status.error_message();
          return ExpectIntact(mirror, false);
        }
      }
      ExpectSane(reply->status().code(), reply->status().message());
      // One change may have become another.
      const bool is_change = operation.has_chunk() || operation.has_reset() || operation.has_set_state() ||
                             operation.has_select_rows() || operation.has_rewind() || operation.has_close();
      const bool applied = is_change && reply->status().code() == 0 && operation.session() == mirror.key;
      ExpectIntact(mirror, applied);
      if (applied) mirror = Start();
    });
    ExpectWitness();
  }
  std::printf("%d variants;", variants);
  for (const auto& [code, times] : codes_) std::printf(" code %d: %d", code, times);
  std::printf("\n");
  EXPECT_GT(variants, 500);
}

TEST_F(SessionHostile, EveryFieldOfEveryCall) {
  const Mirror mirror = Start();
  const auto call_all = [&](const auto& valid, auto method) {
    ForEachChange(valid, [&](const Message& message, const std::string& what) {
      SCOPED_TRACE(absl::StrCat(valid.GetTypeName(), " ", what));
      using Request = std::decay_t<decltype(valid)>;
      const grpc::Status status = method(static_cast<const Request&>(message));
      ExpectSane(status.error_code(), status.error_message());
      ExpectIntact(mirror, false);
    });
    ExpectWitness();
  };
  v1::OpenRequest open = OpenRemembering(2);
  *open.mutable_state() = StateMessage(mirror.now.rows);
  open.mutable_idle_timeout()->set_seconds(60);
  call_all(open, [&](const v1::OpenRequest& request) {
    v1::OpenResponse response;
    grpc::ClientContext context;
    return caller_.sessions->Open(&context, request, &response);
  });
  v1::GetStateRequest get_state;
  get_state.set_session(mirror.key);
  call_all(get_state, [&](const v1::GetStateRequest& request) {
    v1::GetStateResponse response;
    grpc::ClientContext context;
    return caller_.sessions->GetState(&context, request, &response);
  });
  v1::ForkRequest fork;
  fork.set_session(mirror.key);
  call_all(fork, [&](const v1::ForkRequest& request) {
    v1::ForkResponse response;
    grpc::ClientContext context;
    return caller_.sessions->Fork(&context, request, &response);
  });
  v1::CheckpointRequest checkpoint;
  checkpoint.set_session(mirror.key);
  checkpoint.set_name("d");
  call_all(checkpoint, [&](const v1::CheckpointRequest& request) {
    v1::CheckpointResponse response;
    grpc::ClientContext context;
    return caller_.sessions->Checkpoint(&context, request, &response);
  });
  call_all(v1::ListSessionsRequest(), [&](const v1::ListSessionsRequest& request) {
    v1::ListSessionsResponse response;
    grpc::ClientContext context;
    return caller_.sessions->List(&context, request, &response);
  });
}

// A stream that is well until it is not, and then again.
TEST_F(SessionHostile, WrongShapesAndSizesInMidStream) {
  Mirror mirror = Start();
  const auto x = [&](std::vector<int64_t> shape, size_t bytes) {
    v1::Operation operation;
    operation.set_session(mirror.key);
    operation.set_number(mirror.now.number + 1);
    v1::Tensor& tensor = *operation.mutable_chunk()->add_inputs();
    tensor.set_name("X");
    tensor.set_data_type(v1::FLOAT);
    tensor.mutable_shape()->Add(shape.begin(), shape.end());
    tensor.set_raw(std::string(bytes, '\0'));
    return operation;
  };
  const std::vector<v1::Operation> bad = {
      x({3, 1, 1}, 12),                 // another number of rows
      x({3, 2, 2}, 48),                 // another I
      x({3, 2}, 24),                    // another rank
      x({3, 2, 1}, 20),                 // fewer bytes than the shape says
      x({int64_t{1} << 40, 2, 1}, 24),  // far fewer
      x({std::numeric_limits<int64_t>::max(), 2, 1}, 24),
      x({-1, 2, 1}, 0),
      x({0, 3, 1}, 0),
      x({600'000, 2, 1}, 600'000 * 8),  // a reply that the window does not take
  };
  int64_t id = 0;
  for (const v1::Operation& operation : bad) {
    Planned good = PlanChunk(dice_, mirror.key, mirror.now, dice_.Draw(0, 2));
    std::vector<v1::Operation> both = {operation, good.operation};
    both[0].set_number(good.after.number);
    for (v1::Operation& one : both) one.set_request_id(absl::StrCat("b", ++id));
    stream_->Send(both);
    const std::optional<v1::OperationReply> refused = stream_->Await(both[0].request_id());
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->status().code(), grpc::INVALID_ARGUMENT) << refused->status().message();
    // What came behind the refused one either waited for it and was aborted, or was next.
    std::optional<v1::OperationReply> reply = stream_->Await(both[1].request_id());
    ASSERT_TRUE(reply);
    if (reply->status().code() != 0) {
      both[1].set_request_id(absl::StrCat("b", ++id));
      stream_->Send({both[1]});
      reply = stream_->Await(both[1].request_id());
    }
    ASSERT_EQ(Mistake(good, *reply), "");
    mirror.now = good.after;
  }
  ExpectWitness();
}

TEST_F(SessionHostile, NothingAfterClose) {
  Mirror mirror = Start();
  Planned close = PlanClose(mirror.key, mirror.now);
  std::vector<v1::Operation> operations = {close.operation};
  Mirror after = mirror;
  after.now = close.after;
  for (v1::Operation& operation : Kinds(after)) {
    if (!operation.has_open()) operations.push_back(operation);
  }
  for (size_t k = 0; k < operations.size(); ++k) {
    operations[k].set_request_id(absl::StrCat(k));
    // In turn from the one after Close's: Close may still wait when they come, and what is numbered so waits behind it.
    if (k > 0 && operations[k].has_number()) operations[k].set_number(operations[k].number() + k - 1);
    // The state before Close is there as long as Close waits.
    if (operations[k].has_get_state()) operations[k].mutable_get_state()->set_after_number(close.operation.number());
  }
  stream_->Send(operations);
  for (size_t k = 0; k < operations.size(); ++k) {
    const std::optional<v1::OperationReply> reply = stream_->Await(operations[k].request_id());
    ASSERT_TRUE(reply);
    SCOPED_TRACE(operations[k].ShortDebugString().substr(0, 200));
    if (k == 0) {
      EXPECT_EQ(Mistake(close, *reply), "");
    } else {
      EXPECT_EQ(reply->status().code(), grpc::NOT_FOUND) << reply->status().message();
      EXPECT_EQ(ReasonOf(reply->status()), "SESSION_ENDED");
    }
  }
  ExpectWitness();
}

}  // namespace
}  // namespace rnnserve
