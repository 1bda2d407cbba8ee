// SPDX-License-Identifier: Apache-2.0
#include "engine/plugin/plugin_program.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"

namespace rnnserve::plugin {
namespace {

// The ABI's numbers are the vocabulary's, so they are cast.
static_assert(static_cast<int>(DataType::kFloat) == RNNSERVE_FLOAT);
static_assert(static_cast<int>(DataType::kFloat16) == RNNSERVE_FLOAT16);
static_assert(static_cast<int>(DataType::kDouble) == RNNSERVE_DOUBLE);
static_assert(static_cast<int>(DataType::kBFloat16) == RNNSERVE_BFLOAT16);
static_assert(static_cast<int>(CellKind::kLstm) == RNNSERVE_LSTM);
static_assert(static_cast<int>(CellKind::kGru) == RNNSERVE_GRU);
static_assert(static_cast<int>(CellKind::kRnn) == RNNSERVE_RNN);
static_assert(static_cast<int>(ActivationKind::kRelu) == RNNSERVE_RELU);
static_assert(static_cast<int>(ActivationKind::kTanh) == RNNSERVE_TANH);
static_assert(static_cast<int>(ActivationKind::kSigmoid) == RNNSERVE_SIGMOID);
static_assert(static_cast<int>(ActivationKind::kAffine) == RNNSERVE_AFFINE);
static_assert(static_cast<int>(ActivationKind::kLeakyRelu) == RNNSERVE_LEAKY_RELU);
static_assert(static_cast<int>(ActivationKind::kThresholdedRelu) == RNNSERVE_THRESHOLDED_RELU);
static_assert(static_cast<int>(ActivationKind::kScaledTanh) == RNNSERVE_SCALED_TANH);
static_assert(static_cast<int>(ActivationKind::kHardSigmoid) == RNNSERVE_HARD_SIGMOID);
static_assert(static_cast<int>(ActivationKind::kElu) == RNNSERVE_ELU);
static_assert(static_cast<int>(ActivationKind::kSoftsign) == RNNSERVE_SOFTSIGN);
static_assert(static_cast<int>(ActivationKind::kSoftplus) == RNNSERVE_SOFTPLUS);

// The plugin's program; states and workspaces hold it too, so that it goes after them.
class Handle {
 public:
  Handle(std::shared_ptr<const OpenEngine> engine, rnnserve_program* program)
      : engine_(std::move(engine)), program_(program) {}
  ~Handle() { api().program_destroy(program_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  const OpenEngine& engine() const { return *engine_; }
  const rnnserve_api& api() const { return engine_->api(); }
  rnnserve_program* get() const { return program_; }

 private:
  const std::shared_ptr<const OpenEngine> engine_;
  rnnserve_program* const program_;
};

using HandlePtr = std::shared_ptr<const Handle>;

// A call's outcome, and a handle that must be there if it succeeded.
absl::Status CheckMade(const Handle& program, int32_t code, const void* made, const char* doing,
                       const ErrorText& error) {
  if (code == RNNSERVE_OK && made == nullptr) return program.engine().NoResult(doing);
  return program.engine().Check(code, doing, error);
}

class PluginState final : public State {
 public:
  explicit PluginState(HandlePtr program) : program_(std::move(program)) {
    ErrorText error;
    const int32_t code = program_->api().state_create(program_->get(), &state_, error.data(), error.size());
    failure_ = CheckMade(*program_, code, state_, "making a state", error);
    if (!failure_.ok()) state_ = nullptr;
  }
  ~PluginState() override { program_->api().state_destroy(state_); }

  absl::Status failure() const override {
    MutexLock lock(mutex_);
    return failure_;
  }
  rnnserve_state* get() const { return state_; }

  void Import(int32_t type, const std::byte* h, const std::byte* c) {
    if (state_ == nullptr) return;
    ErrorText error;
    const int32_t code = program_->api().state_import(program_->get(), state_, type, h, c, error.data(), error.size());
    Set(program_->engine().Check(code, "importing a state", error));
  }

  // Writes nothing that can be used if it fails; failure() says so and why.
  void Export(int32_t type, std::byte* h, std::byte* c) const {
    if (!failure().ok()) return;
    ErrorText error;
    const int32_t code = program_->api().state_export(program_->get(), state_, type, h, c, error.data(), error.size());
    Set(program_->engine().Check(code, "exporting a state", error));
  }

  // The state after a slice that succeeded is whole again, whatever it was before.
  void Renewed() { Set(absl::OkStatus()); }

 private:
  void Set(absl::Status failure) const {
    MutexLock lock(mutex_);
    failure_ = std::move(failure);
  }

  const HandlePtr program_;
  rnnserve_state* state_ = nullptr;
  mutable Mutex mutex_;  // several may read one state at once
  mutable absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

class PluginWorkspace final : public Workspace {
 public:
  explicit PluginWorkspace(HandlePtr program) : program_(std::move(program)) {
    ErrorText error;
    const int32_t code = program_->api().workspace_create(program_->get(), &workspace_, error.data(), error.size());
    made_ = CheckMade(*program_, code, workspace_, "making a workspace", error);
    if (!made_.ok()) workspace_ = nullptr;
  }
  ~PluginWorkspace() override { program_->api().workspace_destroy(workspace_); }

  // OK, or why there is none.
  const absl::Status& made() const { return made_; }
  rnnserve_workspace* get() const { return workspace_; }

  std::vector<rnnserve_slice> slices;

 private:
  const HandlePtr program_;
  rnnserve_workspace* workspace_ = nullptr;
  absl::Status made_;
};

class PluginProgram final : public Program {
 public:
  PluginProgram(HandlePtr handle, const CellSpec& spec, int64_t bytes)
      : handle_(std::move(handle)), is_lstm_(spec.kind == CellKind::kLstm), bytes_(bytes) {}

  std::unique_ptr<State> NewState() const override { return std::make_unique<PluginState>(handle_); }

  void ImportState(DataType type, const std::byte* h, const std::byte* c, State& state) const override {
    static_cast<PluginState&>(state).Import(static_cast<int32_t>(type), h, is_lstm_ ? c : nullptr);
  }

  void ExportState(const State& state, DataType type, std::byte* h, std::byte* c) const override {
    static_cast<const PluginState&>(state).Export(static_cast<int32_t>(type), h, is_lstm_ ? c : nullptr);
  }

  std::unique_ptr<Workspace> NewWorkspace() const override { return std::make_unique<PluginWorkspace>(handle_); }

  absl::Status Advance(std::span<const SequenceSlice> slices, Workspace& workspace) const override {
    auto& scratch = static_cast<PluginWorkspace&>(workspace);
    if (!scratch.made().ok()) return scratch.made();
    scratch.slices.clear();
    for (const SequenceSlice& slice : slices) {
      const auto* before = static_cast<const PluginState*>(slice.before);
      auto* after = static_cast<PluginState*>(slice.after);
      if (before != nullptr) {
        RETURN_IF_ERROR(before->failure());
      }
      if (after->get() == nullptr) return after->failure();
      scratch.slices.push_back({slice.x, slice.x_stride, slice.y, slice.y_stride, slice.steps,
                                before == nullptr ? nullptr : before->get(), after->get()});
    }
    ErrorText error;
    const int32_t code = handle_->api().advance(handle_->get(), scratch.slices.data(), scratch.slices.size(),
                                                scratch.get(), error.data(), error.size());
    if (code != RNNSERVE_OK) return handle_->engine().Check(code, "computing", error);
    for (const SequenceSlice& slice : slices) static_cast<PluginState*>(slice.after)->Renewed();
    return absl::OkStatus();
  }

  // For the device, and for others' calls on it.
  bool waits() const override { return true; }
  int64_t packed_bytes() const override { return bytes_; }

 private:
  const HandlePtr handle_;
  const bool is_lstm_;
  const int64_t bytes_;
};

template <typename T>
rnnserve_weights Pointers(const CellWeights<T>& weights) {
  return {weights.w.data(), weights.r.data(), weights.wb.data(), weights.rb.data(),
          weights.p.empty() ? nullptr : weights.p.data()};
}

// The bytes of the program, or why they cannot be true. The cache of programs is bounded by these figures.
absl::StatusOr<int64_t> Bytes(const Handle& program) {
  const int64_t bytes = program.api().program_bytes(program.get());
  ASSIGN_OR_RETURN(const rnnserve_device_info info, program.engine().Info());
  if (bytes >= 0 && bytes <= info.memory_limit_bytes) return bytes;
  return absl::InternalError(absl::StrCat("engine \"", program.api().name, "\" says that a program takes ", bytes,
                                          " bytes, expected 0 to its memory limit of ", info.memory_limit_bytes));
}

}  // namespace

rnnserve_cell ToAbi(const CellSpec& spec, const EngineOptions& options) {
  rnnserve_cell cell{};
  cell.input_size = spec.input_size;
  cell.hidden_size = spec.hidden_size;
  for (size_t k = 0; k < spec.activations.size(); ++k) {
    const Activation& function = spec.activations[k];
    cell.activations[k] = {function.alpha, function.beta, static_cast<int32_t>(function.kind), 0};
  }
  cell.clip = spec.clip;
  cell.kind = static_cast<int32_t>(spec.kind);
  cell.data_type = static_cast<int32_t>(spec.data_type);
  cell.clip_cell_input = spec.clip_cell_input;
  cell.input_forget = spec.input_forget;
  cell.linear_before_reset = spec.linear_before_reset;
  cell.has_peephole = spec.has_peephole;
  cell.allow_reduced_precision = options.allow_reduced_precision;
  cell.deterministic = options.deterministic;
  return cell;
}

absl::StatusOr<ProgramPtr> MakePluginProgram(std::shared_ptr<const OpenEngine> engine, const Cell& cell,
                                             const EngineOptions& options) {
  const rnnserve_cell raw = ToAbi(cell.spec(), options);
  const bool is_double = ComputeType(cell.spec().data_type) == DataType::kDouble;
  const rnnserve_weights weights = is_double ? Pointers(cell.weights_f64()) : Pointers(cell.weights_f32());
  rnnserve_program* program = nullptr;
  ErrorText error;
  const int32_t code =
      engine->api().program_create(engine->get(), &raw, &weights, &program, error.data(), error.size());
  constexpr char kDoing[] = "packing the weights";
  if (code != RNNSERVE_OK) return engine->Check(code, kDoing, error);
  if (program == nullptr) return engine->NoResult(kDoing);
  auto handle = std::make_shared<const Handle>(std::move(engine), program);
  ASSIGN_OR_RETURN(int64_t bytes, Bytes(*handle));
  return std::make_shared<const PluginProgram>(std::move(handle), cell.spec(), bytes);
}

}  // namespace rnnserve::plugin
