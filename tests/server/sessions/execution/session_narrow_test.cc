// SPDX-License-Identifier: Apache-2.0
// States kept in 16 bits: what they cost, what GetState tells, what they go on from.
#include <gtest/gtest.h>

#include <future>

#include "base/field_error.h"
#include "engine/float16.h"
#include "tests/server/sessions/execution/live_sessions.h"

namespace rnnserve {
namespace {

constexpr int64_t kHidden = 16, kInput = 3, kRows = 2;

std::vector<OwnedTensor> Weights(DataType type) {
  return {FilledTensor("W", type, {1, 4 * kHidden, kInput}, 0.3),
          FilledTensor("R", type, {1, 4 * kHidden, kHidden}, 0.01)};
}

std::string BytesOf(const std::vector<OutputTensor>& tensors, std::string_view name) {
  for (const OutputTensor& tensor : tensors) {
    if (tensor.name == name) return std::string(tensor.bytes.view());
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

std::vector<NamedTensor> Views(const std::vector<OutputTensor>& tensors) {
  std::vector<NamedTensor> views;
  for (const OutputTensor& tensor : tensors) {
    views.push_back({tensor.name, {tensor.type, tensor.shape, std::as_bytes(std::span(tensor.bytes))}});
  }
  return views;
}

class SessionNarrow : public testing::TestWithParam<DataType> {
 protected:
  OpenCall Spec(std::optional<DataType> kept, DataType type = DataType::kFloat) {
    OpenCall open;
    OperatorDef lstm;
    lstm.op_type = "LSTM";
    lstm.version = 22;
    lstm.attributes["hidden_size"] = kHidden;
    open.target = std::move(lstm);
    weights_ = Weights(type);
    open.weights = rnnserve::Views(weights_);
    open.rows = kRows;
    open.engine = "cpu";
    open.options.deterministic = true;
    open.state_type = kept;
    return open;
  }
  std::string Open(std::optional<DataType> kept) { return live_.Open(Spec(kept)).value(); }
  std::vector<OutputTensor> State(const std::string& session) { return live_.GetState(session).value().state; }
  ApplyReply Chunk(const std::string& session, uint64_t number, double x, std::vector<int32_t> lengths = {}) {
    OperationPipeline pipeline(live_.sessions());
    std::vector<OwnedTensor> inputs = {FilledTensor("X", DataType::kFloat, {1, kRows, kInput}, x)};
    if (!lengths.empty()) {
      inputs.push_back(MakeTensor("sequence_lens", DataType::kInt32, {kRows}, {lengths.begin(), lengths.end()}));
    }
    pipeline.Send(session, number, std::move(inputs));
    ApplyReply answer = std::move(pipeline.Answers()[0]);
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    return answer;
  }
  absl::Status Apply(const std::string& session, uint64_t number, OperationKind kind) {
    OperationCall call;
    call.session = session;
    call.number = number;
    call.kind = std::move(kind);
    std::promise<absl::Status> told;  // by this thread, or by the one that still tells of the chunk before
    live_.sessions().Apply(std::move(call), [&](ApplyReply answer) { told.set_value(answer.status); });
    return told.get_future().get();
  }
  int64_t ListedBytes() { return live_.sessions().List("", 10, "")->sessions.back().view.state_bytes; }

  LiveSessions live_;
  std::vector<OwnedTensor> weights_;
};

TEST_P(SessionNarrow, ItTakesHalfTheMemoryAndIsRoundedOnceAChunk) {
  const std::string wide = Open(std::nullopt);
  EXPECT_EQ(ListedBytes(), kRows * 2 * kHidden * 4);
  const std::string narrow = Open(GetParam());
  EXPECT_EQ(ListedBytes(), kRows * 2 * kHidden * 2);
  const ApplyReply of_wide = Chunk(wide, 1, 0.7), of_narrow = Chunk(narrow, 1, 0.7);
  EXPECT_EQ(of_wide.result->outputs[0].bytes, of_narrow.result->outputs[0].bytes) << "computed alike";
  for (const char* name : {"initial_h", "initial_c"}) {
    const std::string exact = BytesOf(State(wide), name), kept = BytesOf(State(narrow), name);
    std::string rounded(exact.size() / 2, '\0'), want(exact.size(), '\0');
    const auto bytes = [](auto& text) { return reinterpret_cast<std::byte*>(text.data()); };
    const size_t values = exact.size() / 4;
    ConvertElements(DataType::kFloat, reinterpret_cast<const std::byte*>(exact.data()), GetParam(), bytes(rounded),
                    values);
    ConvertElements(GetParam(), bytes(rounded), DataType::kFloat, bytes(want), values);
    EXPECT_EQ(kept, want) << name;
    EXPECT_NE(kept, exact) << name;
  }
}

TEST_P(SessionNarrow, WhatGetStateGivesIsSetExactly) {
  const std::string first = Open(GetParam()), second = Open(GetParam());
  Chunk(first, 1, 0.7);
  const std::vector<OutputTensor> state = State(first);
  ASSERT_TRUE(Apply(second, 1, ResetOp{Views(state)}).ok());
  EXPECT_EQ(BytesOf(State(second), "initial_c"), BytesOf(state, "initial_c"));
  // And what follows from it is the same.
  EXPECT_EQ(Chunk(first, 2, -0.4).result->outputs[0].bytes, Chunk(second, 2, -0.4).result->outputs[0].bytes);
  EXPECT_EQ(BytesOf(State(second), "initial_h"), BytesOf(State(first), "initial_h"));
}

TEST_P(SessionNarrow, RowsOfNoStepsKeepTheirBits) {
  const std::string session = Open(GetParam());
  Chunk(session, 1, 0.7, {1, 0});
  Chunk(session, 2, 0.2, {0, 1});
  const std::vector<OutputTensor> before = State(session);
  Chunk(session, 3, 0.9, {0, 0});
  EXPECT_EQ(BytesOf(State(session), "initial_h"), BytesOf(before, "initial_h"));
  EXPECT_EQ(BytesOf(State(session), "initial_c"), BytesOf(before, "initial_c"));
  ASSERT_TRUE(Apply(session, 4, SelectRowsOp{{1, 1, 0}}).ok());
  const std::string h = BytesOf(before, "initial_h"), row = h.substr(h.size() / 2);
  EXPECT_EQ(BytesOf(State(session), "initial_h"), row + row + h.substr(0, h.size() / 2));
}

TEST_P(SessionNarrow, StatesGoBetweenWidths) {
  const std::string wide = Open(std::nullopt);
  Chunk(wide, 1, 0.7);
  OpenCall call = Spec(GetParam());
  call.state_of_session = wide;
  const std::string narrow = live_.Open(std::move(call)).value();
  EXPECT_NE(BytesOf(State(narrow), "initial_c"), BytesOf(State(wide), "initial_c"));
  OpenCall back = Spec(std::nullopt);
  back.state_of_session = narrow;
  const std::string again = live_.Open(std::move(back)).value();
  EXPECT_EQ(BytesOf(State(again), "initial_c"), BytesOf(State(narrow), "initial_c"));
  Chunk(again, 1, 0.1);
  Chunk(narrow, 1, 0.1);
}

TEST_P(SessionNarrow, DoublesAreNotNarrowed) {
  const absl::Status refused = live_.Open(Spec(GetParam(), DataType::kDouble)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(refused), "state_type");
  EXPECT_FALSE(live_.Open(Spec(DataType::kDouble)).ok()) << "nor is a float widened";
  EXPECT_TRUE(live_.Open(Spec(DataType::kFloat)).ok());
}

INSTANTIATE_TEST_SUITE_P(Types, SessionNarrow, testing::Values(DataType::kFloat16, DataType::kBFloat16),
                         [](const auto& type) {
                           return type.param == DataType::kFloat16 ? std::string("Float16") : std::string("BFloat16");
                         });

}  // namespace
}  // namespace rnnserve
