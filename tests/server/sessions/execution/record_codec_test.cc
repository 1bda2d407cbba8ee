// SPDX-License-Identifier: Apache-2.0
// A session of one server goes on in another one, by its record: the numbers are those of a session that never moved.
#include "server/sessions/execution/record_codec.h"

#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "base/field_error.h"
#include "server/sessions/execution/record.pb.h"
#include "tests/server/sessions/contract/fake_store.h"
#include "tests/server/sessions/execution/live_sessions.h"

namespace rnnserve {
namespace {

constexpr int64_t kHidden = 16, kInput = 3, kRows = 2;

struct Server {
  explicit Server(SessionStore* store) : records(store, &codec) { live.kept().UseRecords(&records); }
  ~Server() { live.kept().UseRecords(nullptr); }

  ApplyReply Chunk(const std::string& session, uint64_t number, double x) {
    OperationPipeline pipeline(live.sessions());
    pipeline.Send(session, number, {FilledTensor("X", type, {1, kRows, kInput}, x)});
    return std::move(pipeline.Answers()[0]);
  }

  DataType type = DataType::kFloat;
  LiveSessions live;
  SessionRecordCodec codec{&live.sessions()};
  SessionRecords records;
};

struct Case {
  std::string name;
  std::string op;
  int64_t gates;
  DataType type = DataType::kFloat;
  std::optional<DataType> kept = {};
  WeightType weights = WeightType::kAsGiven;
};

class RecordCodecTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { from_.type = to_.type = GetParam().type; }

  OpenCall Inline() {
    OpenCall open;
    OperatorDef op;
    op.op_type = GetParam().op;
    op.version = 22;
    op.attributes["hidden_size"] = kHidden;
    open.target = std::move(op);
    weights_ = {FilledTensor("W", GetParam().type, {1, GetParam().gates * kHidden, kInput}, 0.3),
                FilledTensor("R", GetParam().type, {1, GetParam().gates * kHidden, kHidden}, 0.01)};
    open.weights = Views(weights_);
    open.rows = kRows;
    open.engine = "cpu";
    open.options.deterministic = true;
    open.options.allow_reduced_precision = true;
    open.options.weights = GetParam().weights;
    open.state_type = GetParam().kept;
    return open;
  }
  // The model is known by its fingerprint from then on.
  static std::string Know(Server& server, OpenCall call) {
    const std::string key = server.live.Open(std::move(call)).value();
    return server.live.GetState(key)->fingerprint;
  }
  std::string OpenDurable() {
    OpenCall open = Inline();
    open.weights.clear();
    open.target = ModelFingerprint{Know(from_, Inline())};
    open.durability = Durability::kSync;
    return from_.live.Open(std::move(open)).value();
  }

  FakeStore store_;
  Server from_{&store_}, to_{&store_};
  std::vector<OwnedTensor> weights_;
};

TEST_P(RecordCodecTest, AnotherServerComputesTheSameBits) {
  Know(to_, Inline());
  const std::string key = OpenDurable();
  const std::string whole = to_.live.Open(Inline()).value();
  for (uint64_t number = 1; number <= 6; ++number) {
    Server& server = number % 2 == 1 ? from_ : to_;
    const double x = 0.1 * static_cast<double>(number);
    ApplyReply answer = server.Chunk(key, number, x);
    // The other server's copy is old, and it finds out.
    if (ReasonOf(answer.status) == "TAKEN_OVER") answer = server.Chunk(key, number, x);
    ASSERT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_EQ(answer.durable_number, number);
    EXPECT_EQ(answer.numbers.position, number);
    const ApplyReply expected = to_.Chunk(whole, number, x);
    ASSERT_EQ(answer.result->outputs.size(), expected.result->outputs.size());
    for (size_t k = 0; k < answer.result->outputs.size(); ++k) {
      EXPECT_EQ(answer.result->outputs[k].name, expected.result->outputs[k].name);
      EXPECT_EQ(answer.result->outputs[k].shape, expected.result->outputs[k].shape);
      EXPECT_EQ(answer.result->outputs[k].bytes, expected.result->outputs[k].bytes) << number;
    }
    // A repetition elsewhere is the reply of the record, bit for bit.
    const ApplyReply repeated = (number % 2 == 1 ? to_ : from_).Chunk(key, number, x);
    if (ReasonOf(repeated.status) == "TAKEN_OVER") continue;
    EXPECT_TRUE(repeated.repeated);
    EXPECT_EQ(repeated.result->outputs[0].bytes, answer.result->outputs[0].bytes);
  }
}

TEST_P(RecordCodecTest, EachDamagedByteIsNoticed) {
  OpenDurable();
  const std::string good = store_.records.begin()->second.record;
  ASSERT_TRUE(from_.codec.Decode(good).ok());
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    EXPECT_EQ(from_.codec.Decode(bad).status().code(), absl::StatusCode::kDataLoss) << at;
    EXPECT_FALSE(from_.codec.Decode(good.substr(0, at)).ok()) << at;
  }
}

TEST_P(RecordCodecTest, AServerWithoutTheModelSaysSo) {
  const std::string key = OpenDurable();
  const absl::Status missing = to_.Chunk(key, 1, 0.1).status;
  EXPECT_EQ(ReasonOf(missing), "MODEL_MISSING") << missing;
  // The session stays where it is, and goes on there.
  EXPECT_TRUE(from_.Chunk(key, 1, 0.1).status.ok());
}

TEST_P(RecordCodecTest, ARecordOfANewerServerIsRefused) {
  OpenDurable();
  store::Record record;
  ASSERT_TRUE(record.ParseFromString(store_.records.begin()->second.record.substr(4)));
  record.set_version(record.version() + 1);
  const std::string bytes = record.SerializeAsString();
  const uint32_t crc = Crc32c(bytes);
  std::string checksum;
  for (int k = 0; k < 4; ++k) checksum.push_back(static_cast<char>(crc >> (8 * k) & 0xFF));
  EXPECT_EQ(ReasonOf(from_.codec.Decode(checksum + bytes).status()), "RECORD_TOO_NEW");
}

TEST_P(RecordCodecTest, AnOperatorWithItsWeightsIsRefused) {
  OpenCall open = Inline();
  open.durability = Durability::kSync;
  const absl::Status refused = from_.live.Open(std::move(open)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(FieldOf(refused), "operator");
}

INSTANTIATE_TEST_SUITE_P(Operators, RecordCodecTest,
                         testing::Values(Case{"Lstm", "LSTM", 4}, Case{"Gru", "GRU", 3}, Case{"Rnn", "RNN", 1},
                                         Case{"LstmDouble", "LSTM", 4, DataType::kDouble},
                                         Case{"LstmKeptInHalf", "LSTM", 4, DataType::kFloat, DataType::kFloat16},
                                         Case{"GruOfInt8", "GRU", 3, DataType::kFloat, {}, WeightType::kInt8}),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace rnnserve
