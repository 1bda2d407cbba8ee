// SPDX-License-Identifier: Apache-2.0
// What thousands of chunks do to numbers: 4,000 of them stay within section 11 of a float64 run of the same weights;
// and NaN and infinities of one session reach no other in the same slices.
//   RNNSERVE_CHUNKS=120000 session_drift_test      the long form of the second
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "tests/engine/support/compare.h"
#include "tests/server/sessions/execution/live_sessions.h"

namespace rnnserve {
namespace {

constexpr int64_t kHidden = 24, kInput = 5;

struct Kind {
  const char* name;
  int64_t gates;
};
constexpr Kind kKinds[] = {{"LSTM", 4}, {"GRU", 3}, {"RNN", 1}};

class SessionDrift : public testing::Test {
 protected:
  explicit SessionDrift(BatchQueue::Options queue = {.workers = 2}) : live_({}, queue) {}
  std::vector<double> Reals(size_t count, double bound) {
    std::vector<double> values(count);
    for (double& value : values) value = std::uniform_real_distribution<double>(-bound, bound)(random_);
    return values;
  }
  OperatorDef Operator(const Kind& kind) {
    OperatorDef op;
    op.op_type = kind.name;
    op.version = 22;
    op.attributes["hidden_size"] = kHidden;
    if (kind.gates == 3) op.attributes["linear_before_reset"] = int64_t{1};
    return op;
  }
  std::vector<OwnedTensor> Weights(const Kind& kind, DataType type) {
    const int64_t g = kind.gates * kHidden;
    return {MakeTensor("W", type, {1, g, kInput}, Reals(static_cast<size_t>(g * kInput), 0.4)),
            MakeTensor("R", type, {1, g, kHidden}, Reals(static_cast<size_t>(g * kHidden), 0.2)),
            MakeTensor("B", type, {1, 2 * g}, Reals(static_cast<size_t>(2 * g), 0.3))};
  }
  std::string Open(const Kind& kind, const std::vector<OwnedTensor>& weights, const char* engine, bool deterministic,
                   int64_t rows = 1, std::optional<DataType> state_type = {}) {
    OpenCall open;
    open.target = Operator(kind);
    open.weights = Views(weights);
    open.engine = engine;
    open.options.deterministic = deterministic;
    open.rows = rows;
    open.max_in_flight = 1024;
    open.window_operations = 1;
    open.state_type = state_type;
    const absl::StatusOr<std::string> session = live_.Open(std::move(open));
    EXPECT_TRUE(session.ok()) << session.status();
    return *session;
  }

  LiveSessions live_;
  std::mt19937_64 random_{4000};
};

std::vector<double> ValuesOf(const OutputTensor& output) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(output.bytes));
  return OwnedTensor{output.name, output.type, output.shape, {bytes.begin(), bytes.end()}}.Values();
}

// Values rounded to a narrower type, as doubles.
std::vector<OwnedTensor> Widened(const std::vector<OwnedTensor>& tensors) {
  std::vector<OwnedTensor> wide;
  for (const OwnedTensor& tensor : tensors) {
    wide.push_back(MakeTensor(tensor.name, DataType::kDouble, tensor.shape, tensor.Values()));
  }
  return wide;
}

// What is sent within a millisecond shares slices, whichever thread is faster.
class SessionNeighbours : public SessionDrift {
 protected:
  SessionNeighbours() : SessionDrift({.workers = 1, .max_batch_delay = absl::Milliseconds(1)}) {}
};

TEST_F(SessionDrift, FourThousandChunksStayWithinTheTolerance) {
  constexpr uint64_t kChunks = 4000;
  struct Side {
    DataType type;
    const char* engine;
    bool deterministic;
    double tolerance;
  };
  const Side sides[] = {{DataType::kFloat, "cpu", false, 1e-5},    {DataType::kFloat, "cpu", true, 1e-5},
                        {DataType::kFloat, "onednn", false, 1e-5}, {DataType::kFloat, "reference", false, 1e-5},
                        {DataType::kFloat16, "cpu", false, 2e-3},  {DataType::kBFloat16, "cpu", false, 1e-2}};
  for (const Kind& kind : kKinds) {
    for (const Side& side : sides) {
      SCOPED_TRACE(std::string(kind.name) + " on " + side.engine);
      const std::vector<OwnedTensor> weights = Weights(kind, side.type);
      const std::string narrow = Open(kind, weights, side.engine, side.deterministic);
      const std::string wide = Open(kind, Widened(weights), "reference", false);
      Tally tally;
      for (uint64_t number = 1; number <= kChunks;) {
        OperationPipeline pipeline(live_.sessions());
        const uint64_t first = number;
        for (; number <= kChunks && number - first < 500; ++number) {
          const int64_t steps = std::uniform_int_distribution<int64_t>(1, 2)(random_);
          std::vector<OwnedTensor> x = {
              MakeTensor("X", side.type, {steps, 1, kInput}, Reals(static_cast<size_t>(steps * kInput), 1))};
          pipeline.Send(wide, number, Widened(x));
          pipeline.Send(narrow, number, std::move(x));
        }
        const std::vector<ApplyReply> answers = pipeline.Answers();
        for (size_t k = 0; k < answers.size(); k += 2) {
          ASSERT_TRUE(answers[k].status.ok() && answers[k + 1].status.ok()) << answers[k + 1].status;
          for (size_t output = 0; output < answers[k].result->outputs.size(); ++output) {
            ASSERT_TRUE(ValuesNear(ValuesOf(answers[k + 1].result->outputs[output]),
                                   ValuesOf(answers[k].result->outputs[output]), side.tolerance, &tally))
                << "chunk " << first + k / 2;
          }
        }
      }
      std::printf("%-4s %-9s type %d: %lld values of 4,000 chunks, at most %.1e off\n", kind.name, side.engine,
                  static_cast<int>(side.type), static_cast<long long>(tally.values), tally.worst);
    }
  }
}

// States kept in 16 bits are rounded once a chunk: what docs/sessions.md publishes, and no more.
TEST_F(SessionDrift, SixteenBitStatesAreOffByWhatIsPublished) {
  constexpr uint64_t kChunks = 4000;
  struct Side {
    DataType kept;
    const char* name;
    double tolerance, of_long_memory;
  };
  struct Memory {
    Kind kind;
    bool is_long;  // a forget gate near 1, so that what was rounded long ago still counts
  };
  const Memory memories[] = {{kKinds[0], false}, {kKinds[0], true}, {kKinds[1], false}, {kKinds[2], false}};
  for (const auto& [kind, is_long] : memories) {
    std::vector<OwnedTensor> weights = Weights(kind, DataType::kFloat);
    if (is_long) {
      std::vector<double> bias = weights[2].Values();
      for (size_t k = 2 * kHidden; k < 3 * kHidden; ++k) bias[k] += 4;
      weights[2] = MakeTensor("B", DataType::kFloat, weights[2].shape, bias);
    }
    for (const Side& side :
         {Side{DataType::kFloat16, "FLOAT16", 5e-4, 4e-2}, Side{DataType::kBFloat16, "BFLOAT16", 4e-3, 2e-1}}) {
      SCOPED_TRACE(std::string(kind.name) + " kept in " + side.name);
      const std::string narrow = Open(kind, weights, "cpu", false, 1, side.kept);
      const std::string wide = Open(kind, Widened(weights), "reference", false);
      Tally tally;
      for (uint64_t number = 1; number <= kChunks;) {
        OperationPipeline pipeline(live_.sessions());
        for (const uint64_t end = number + 500; number < end; ++number) {
          std::vector<OwnedTensor> x = {MakeTensor("X", DataType::kFloat, {1, 1, kInput}, Reals(kInput, 1))};
          pipeline.Send(wide, number, Widened(x));
          pipeline.Send(narrow, number, std::move(x));
        }
        const std::vector<ApplyReply> answers = pipeline.Answers();
        for (size_t k = 0; k < answers.size(); k += 2) {
          ASSERT_TRUE(answers[k].status.ok() && answers[k + 1].status.ok()) << answers[k + 1].status;
          ASSERT_TRUE(ValuesNear(ValuesOf(answers[k + 1].result->outputs[0]), ValuesOf(answers[k].result->outputs[0]),
                                 is_long ? side.of_long_memory : side.tolerance, &tally));
        }
      }
      EXPECT_GT(tally.worst, 1e-6) << "nothing was rounded";
      std::printf("%-4s%s kept in %-8s: %lld values of Y of 4,000 chunks of one step, at most %.1e off\n", kind.name,
                  is_long ? ", forget gate near 1," : "", side.name, static_cast<long long>(tally.values), tally.worst);
    }
  }
}

int64_t Chunks() {
  const char* const given = std::getenv("RNNSERVE_CHUNKS");
  return given == nullptr ? 6'000 : std::strtoll(given, nullptr, 10);
}

// Every session runs beside others full of NaN and infinities, and gets what a twin on `reference`, alone, gets.
TEST_F(SessionNeighbours, NanAndInfinitiesStayInTheirSession) {
  constexpr size_t kSessions = 96;
  constexpr int64_t kRows = 2;
  const double wild[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                         -std::numeric_limits<double>::infinity()};
  struct Side {
    const char* engine;
    bool deterministic;
  };
  int64_t checked = 0, poisoned = 0;
  for (const Side& side : {Side{"cpu", true}, Side{"cpu", false}, Side{"onednn", false}}) {
    for (const Kind& kind : kKinds) {
      SCOPED_TRACE(std::string(kind.name) + " on " + side.engine);
      const std::vector<OwnedTensor> weights = Weights(kind, DataType::kFloat);
      std::vector<std::string> sessions;
      for (size_t k = 0; k < kSessions; ++k) {
        sessions.push_back(Open(kind, weights, side.engine, side.deterministic, kRows));
      }
      // All clean rows are sent the same, so one session without neighbours tells what they get.
      const std::string alone = Open(kind, weights, side.engine, side.deterministic, kRows);
      std::vector<bool> is_wild(kSessions);
      uint64_t number = 1;
      for (int64_t chunks = Chunks() / 9; chunks > 0; chunks -= kSessions, ++number) {
        const int64_t steps = std::uniform_int_distribution<int64_t>(1, 3)(random_);
        const std::vector<double> clean = Reals(static_cast<size_t>(steps * kRows * kInput), 1);
        OperationPipeline pipeline(live_.sessions());
        const auto chunk = [&](const std::string& session, bool row_is_wild) {
          std::vector<double> x = clean;
          for (size_t k = 0; row_is_wild && k < x.size(); ++k) {
            const bool in_row = k / kInput % kRows == 0;  // the other row of that session stays clean
            if (in_row && random_() % 2 == 0) x[k] = wild[random_() % 3];
          }
          pipeline.Send(session, number, {MakeTensor("X", DataType::kFloat, {steps, kRows, kInput}, x)},
                        std::vector<std::string>{"Y"});
        };
        const bool resets = number % 8 == 0;  // and all are clean again
        if (resets) {
          for (const std::string& session : sessions) pipeline.Reset(session, number);
          pipeline.Reset(alone, number);
          for (const ApplyReply& answer : pipeline.Answers()) ASSERT_TRUE(answer.status.ok()) << answer.status;
          is_wild.assign(kSessions, false);
          continue;
        }
        chunk(alone, false);
        const std::vector<double> want = ValuesOf(pipeline.Answers()[0].result->outputs[0]);
        for (size_t k = 0; k < kSessions; ++k) {
          if (random_() % 4 == 0) is_wild[k] = true;
          chunk(sessions[k], is_wild[k]);
        }
        const std::vector<ApplyReply> answers = pipeline.Answers();
        for (size_t k = 0; k < kSessions; ++k) {
          ASSERT_TRUE(answers[k].status.ok()) << answers[k].status;
          const std::vector<double> got = ValuesOf(answers[k].result->outputs[0]);
          for (size_t at = 0; at < got.size(); ++at) {
            if (is_wild[k] && at / kHidden % kRows == 0) continue;
            const double error = std::fabs(got[at] - want[at]);
            ASSERT_TRUE(side.deterministic ? error == 0 : error <= 1e-5 * std::max(1.0, std::fabs(want[at])))
                << got[at] << ", not " << want[at] << ", in session " << k << (is_wild[k] ? " beside its own" : "");
          }
          ++checked;
          poisoned += is_wild[k] ? 1 : 0;
        }
      }
    }
  }
  const int64_t median = live_.slices().Median();
  std::printf("%lld chunks, %lld of sessions with NaN or infinities, median batch %lld\n",
              static_cast<long long>(checked), static_cast<long long>(poisoned), static_cast<long long>(median));
  EXPECT_GT(poisoned, checked / 10);
  EXPECT_GE(median, 8);
}

}  // namespace
}  // namespace rnnserve
