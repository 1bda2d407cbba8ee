// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/cpu/cpu_engine.h"
#include "engine/onednn/onednn_engine.h"
#include "tests/bench/engines/timed_cell.h"

namespace rnnserve::bench {
namespace {

CellSpec DefaultSpec(const Shape& shape) {
  CellSpec spec;
  spec.kind = shape.kind;
  spec.input_size = spec.hidden_size = shape.units;
  spec.linear_before_reset = shape.kind == CellKind::kGru;
  const Activation sigmoid{ActivationKind::kSigmoid, 0, 0}, tanh{ActivationKind::kTanh, 0, 0};
  if (shape.kind == CellKind::kLstm) spec.activations = {sigmoid, tanh, tanh};
  if (shape.kind == CellKind::kGru) spec.activations = {sigmoid, tanh, {}};
  if (shape.kind == CellKind::kRnn) spec.activations = {tanh, {}, {}};
  return spec;
}

std::vector<float> Random(std::mt19937& random, int64_t count, float bound) {
  std::uniform_real_distribution<float> uniform(-bound, bound);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = uniform(random);
  return values;
}

CellPtr RandomCell(const CellSpec& spec, std::mt19937& random) {
  const int64_t units = spec.hidden_size, gates = GateCount(spec.kind) * units;
  const float bound = 1 / std::sqrt(static_cast<float>(units));
  CellWeights<float> weights;
  weights.w = Random(random, gates * units, bound);
  weights.r = Random(random, gates * units, bound);
  weights.wb = Random(random, gates, bound);
  weights.rb = Random(random, gates, bound);
  return std::make_shared<Cell>(spec, std::move(weights));
}

// Does a second share of the work beside the caller. Waits on a futex, as a worker of the server would, not in a loop.
class Partner {
 public:
  explicit Partner(std::function<void()> work) : work_(std::move(work)), thread_([this] { Serve(); }) {}
  ~Partner() {
    leaving_ = true;
    Start();
    thread_.join();
  }
  void Start() {
    asked_.fetch_add(1);
    asked_.notify_one();
  }
  void Wait() const {
    for (uint32_t done = done_.load(); done != asked_.load(); done = done_.load()) done_.wait(done);
  }

 private:
  void Serve() {
    for (uint32_t seen = 0;;) {
      asked_.wait(seen);
      if (leaving_) return;
      seen = asked_.load();
      work_();
      done_.store(seen);
      done_.notify_one();
    }
  }

  std::function<void()> work_;
  std::atomic<uint32_t> asked_{0}, done_{0};
  std::atomic<bool> leaving_{false};
  std::thread thread_;
};

class OwnCell final : public TimedCell {
 public:
  OwnCell(ProgramPtr program, const Shape& shape, int threads) : program_(std::move(program)) {
    std::mt19937 random(2);
    const int64_t values = shape.steps * shape.rows * shape.units;
    x_ = Random(random, values, 1);
    y_.resize(static_cast<size_t>(values));
    const auto row_bytes = static_cast<std::ptrdiff_t>(sizeof(float)) * shape.units;
    for (int64_t row = 0; row < shape.rows; ++row) {
      states_.push_back(program_->NewState());
      const std::ptrdiff_t first = row * row_bytes, stride = shape.rows * row_bytes;
      slices_.push_back({.x = reinterpret_cast<const std::byte*>(x_.data()) + first,
                         .x_stride = stride,
                         .y = reinterpret_cast<std::byte*>(y_.data()) + first,
                         .y_stride = stride,
                         .steps = shape.steps,
                         .before = states_.back().get(),
                         .after = states_.back().get()});
    }
    const std::span<const SequenceSlice> all = slices_;
    const size_t mine = threads > 1 ? (all.size() + 1) / 2 : all.size();
    mine_ = all.first(mine);
    if (threads > 1) {
      partner_.emplace([this, theirs = all.subspan(mine)] { Advance(theirs, *their_workspace_); });
    }
  }

  void Run() override {
    if (partner_) partner_->Start();
    Advance(mine_, *workspace_);
    if (partner_) partner_->Wait();
  }

 private:
  void Advance(std::span<const SequenceSlice> slices, Workspace& workspace) const {
    if (!program_->Advance(slices, workspace).ok()) std::abort();
  }

  const ProgramPtr program_;
  const std::unique_ptr<Workspace> workspace_ = program_->NewWorkspace();
  const std::unique_ptr<Workspace> their_workspace_ = program_->NewWorkspace();
  std::vector<float> x_, y_;
  std::vector<std::unique_ptr<State>> states_;
  std::vector<SequenceSlice> slices_;
  std::span<const SequenceSlice> mine_;
  std::optional<Partner> partner_;  // last: its thread uses the above
};

}  // namespace

CellPtr MakeCell(const Shape& shape) {
  std::mt19937 random(1);
  return RandomCell(DefaultSpec(shape), random);
}

absl::StatusOr<std::unique_ptr<TimedCell>> MakeOwnCell(std::string_view engine, const Shape& shape, int threads) {
  EngineOptions options;
  const size_t slash = std::min(engine.find('/'), engine.size());
  for (const WeightType type : kNarrowWeights) {
    if (engine.substr(slash) == absl::StrCat("/", WeightTypeName(type).data())) {
      options = {.allow_reduced_precision = true, .weights = type};
    }
  }
  const bool is_known_kind = slash == engine.size() || options.allow_reduced_precision;
  const std::string contestant(engine);
  engine = engine.substr(0, slash);
  if ((engine != "cpu" && engine != "onednn") || !is_known_kind)
    return absl::InvalidArgumentError(absl::StrCat("no contestant ", contestant));
  if (engine == "onednn" && threads > 1 && shape.rows < 2)
    return absl::UnimplementedError("one row runs on one thread");
  const bool helped = engine == "cpu" && threads > 1;
  const std::unique_ptr<Engine> maker = engine == "onednn" ? MakeOneDnnEngine()
                                        : helped           ? MakeCpuEngineWithHelper()
                                                           : MakeCpuEngine();
  absl::StatusOr<ProgramPtr> program = maker->Compile(MakeCell(shape), options);
  if (!program.ok()) return program.status();
  return std::make_unique<OwnCell>(*std::move(program), shape, helped ? 1 : threads);
}

}  // namespace rnnserve::bench
