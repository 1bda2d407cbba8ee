// SPDX-License-Identifier: Apache-2.0
#include "tests/server/core/request_pool.h"

#include <algorithm>
#include <future>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/cpu/cpu_engine.h"
#include "engine/onednn/onednn_engine.h"
#include "server/batching/cellular_scheduler.h"
#include "tests/engine/support/compare.h"
#include "tests/engine/support/naive_operator.h"
#include "tests/engine/support/run_operator.h"
#include "tests/server/core/run_infer.h"

namespace rnnserve {

struct RealCore::Parts {
  std::unique_ptr<Engine> cpu = MakeCpuEngine(), onednn = MakeOneDnnEngine();
  ModelStore models{{}};
  ProgramCache programs{int64_t{1} << 30};
  CellularScheduler scheduler{{.workers = 2}};
};

RealCore::RealCore() : parts_(std::make_unique<Parts>()) {
  core_ = std::make_unique<Core>(Core::Options{}, std::vector<const Engine*>{parts_->cpu.get(), parts_->onednn.get()},
                                 &parts_->models, &parts_->programs, &parts_->scheduler);
}

RealCore::~RealCore() = default;

namespace {

constexpr int kNonfiniteEvery = 8;

double ToleranceOf(DataType type) {
  return type == DataType::kDouble ? 1e-12 : type == DataType::kFloat ? 1e-5 : type == DataType::kFloat16 ? 2e-3 : 1e-2;
}

bool IsData(const std::string& name) { return !IsWeightName(name); }

// The same weights and other data: a number of rows, steps and lengths of its own.
std::vector<OwnedTensor> OtherData(std::mt19937_64& random, const RandomOperator& op, bool is_nonfinite) {
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const auto reals = [&](const Shape& shape, double bound, bool may_be_wild) {
    std::vector<double> values(static_cast<size_t>(NumElements(shape).value()));
    const double wild[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity()};
    for (double& value : values) {
      const bool is_wild = may_be_wild && draw(0, 1) == 0;
      value = is_wild ? wild[draw(0, 2)] : std::uniform_real_distribution<double>(-bound, bound)(random);
    }
    return values;
  };
  const int64_t rows = draw(1, 3), steps = draw(0, 3) == 0 ? 1 : draw(1, 40), directions = op.directions;
  const bool batch_first = op.openvino || op.layout == 1;
  const auto tensor = [&](const OwnedTensor& like, Shape shape, double bound, bool wild) {
    const std::vector<double> values = reals(shape, bound, wild);
    return MakeTensor(like.name, like.type, std::move(shape), values);
  };
  const Shape state = batch_first ? Shape{rows, directions, op.hidden_size} : Shape{directions, rows, op.hidden_size};
  std::vector<OwnedTensor> inputs;
  for (const OwnedTensor& given : op.inputs) {
    if (given.name == "X") {
      const Shape shape = batch_first ? Shape{rows, steps, op.input_size} : Shape{steps, rows, op.input_size};
      inputs.push_back(tensor(given, shape, 1, is_nonfinite));
    } else if (given.name == InputName(op, "sequence_lens")) {
      std::vector<double> lengths(static_cast<size_t>(rows));
      for (double& length : lengths) length = static_cast<double>(draw(0, steps));
      inputs.push_back(MakeTensor(given.name, given.type, {rows}, lengths));
    } else if (IsData(given.name)) {
      inputs.push_back(tensor(given, state, 1, false));
    } else {
      inputs.push_back(given);
    }
  }
  return inputs;
}

// NaN and infinities are compared as values: a NaN's sign and payload are not promised.
std::string TensorDifference(const PooledRequest& request, const OutputTensor& got, const OutputTensor& want) {
  if (got.name != want.name || got.type != want.type || got.shape != want.shape) return "other outputs";
  if (request.tolerance == 0 && got.bytes == want.bytes) return "";
  const auto owned = [](const OutputTensor& tensor) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(tensor.bytes));
    return OwnedTensor{tensor.name, tensor.type, tensor.shape, {bytes.begin(), bytes.end()}};
  };
  if (request.tolerance == 0 && !request.has_nonfinite) return absl::StrCat("other bits in ", got.name);
  const testing::AssertionResult near = TensorsNear(owned(got), owned(want), request.tolerance);
  return near ? "" : near.message();
}

}  // namespace

absl::StatusOr<InferReply> InferAlone(Core& core, const InferCall& call) {
  std::promise<absl::StatusOr<InferReply>> reply;
  RunInfer(core, call, [&](absl::StatusOr<InferReply> result) { reply.set_value(std::move(result)); });
  return reply.get_future().get();
}

std::vector<std::unique_ptr<PooledRequest>> MakeRequests(std::mt19937_64& random, Core& core, int operators,
                                                         int per_operator) {
  const DataType types[] = {DataType::kFloat,  DataType::kFloat,   DataType::kFloat,
                            DataType::kDouble, DataType::kFloat16, DataType::kBFloat16};
  std::vector<std::unique_ptr<PooledRequest>> requests;
  for (int k = 0; k < operators; ++k) {
    const bool is_onednn = k % 6 == 2;
    const Engine* const onednn = core.engines()[1];
    const auto accepts = [&](const RandomOperator& op) {
      return op.input_size > 0 && (!is_onednn || SupportsOperator(*onednn, op.op, op.inputs, {}).ok());
    };
    const RandomOperator op = MakeTameOperator(random, types[k % 6], {.zero_lengths = false}, accepts);
    for (int variant = 0; variant < per_operator; ++variant) {
      auto request = std::make_unique<PooledRequest>();
      request->has_nonfinite = variant % kNonfiniteEvery == 0;
      request->inputs = OtherData(random, op, request->has_nonfinite);
      request->call.engine = is_onednn ? "onednn" : "cpu";
      request->call.options.deterministic = !is_onednn && variant % 2 == 0;
      request->tolerance = *request->call.options.deterministic ? 0 : ToleranceOf(op.type);
      request->call.target = op.op;
      request->call.inputs = Views(request->inputs);
      absl::StatusOr<InferReply> alone = InferAlone(core, request->call);
      EXPECT_TRUE(alone.ok()) << alone.status() << " " << op.Describe();
      if (!alone.ok()) continue;
      request->alone = *std::move(alone);
      request->alone.memory.reset();
      // Half of them name what the others send.
      if (variant % 4 >= 2) {
        request->call.target = ModelFingerprint{request->alone.model->fingerprint()};
        std::erase_if(request->call.inputs, [](const NamedTensor& input) { return !IsData(input.name); });
      }
      requests.push_back(std::move(request));
    }
  }
  return requests;
}

std::string Difference(const PooledRequest& request, const InferReply& got) {
  if (got.outputs.size() != request.alone.outputs.size()) return "another number of outputs";
  for (size_t k = 0; k < got.outputs.size(); ++k) {
    const std::string difference = TensorDifference(request, got.outputs[k], request.alone.outputs[k]);
    if (!difference.empty()) return difference;
  }
  return "";
}

}  // namespace rnnserve
