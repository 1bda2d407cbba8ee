// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/cuda/host_engine.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/cuda/rows.h"
#include "engine/cuda/units.h"
#include "engine/float16.h"
#include "engine/plugin/engine_abi.h"

namespace rnnserve::cuda {
namespace {

constexpr int64_t kBlockSteps = 4;
// Two threads a row, as on the device where rows are wide.
constexpr RowShare kShares[] = {{0, 2}, {1, 2}};

template <typename T>
struct HostState final : State {
  std::vector<T> slot;  // h, then c
};

CellMath<double> Math(const CellSpec& spec, double) {
  const auto function = [](const Activation& a) {
    return ActivationFn<double>{static_cast<int>(a.kind), a.alpha, a.beta};
  };
  return {function(spec.activations[0]), function(spec.activations[1]),
          function(spec.activations[2]), spec.clip,
          spec.clip_cell_input,          spec.input_forget};
}
CellMath<float> Math(const CellSpec& spec, float) {
  const auto function = [](const Activation& a) {
    return ActivationFn<float>{static_cast<int>(a.kind), static_cast<float>(a.alpha), static_cast<float>(a.beta)};
  };
  return {function(spec.activations[0]), function(spec.activations[1]), function(spec.activations[2]),
          static_cast<float>(spec.clip), spec.clip_cell_input,          spec.input_forget};
}

// out[n, first + g] (+)= matrix[g, :] . in[n, :], rows of `out` `wide` apart.
template <typename T>
void Product(const T* matrix, const T* in, T* out, int64_t rows, int64_t gates, int64_t inner, int64_t wide) {
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t g = 0; g < gates; ++g) {
      T sum = 0;
      for (int64_t k = 0; k < inner; ++k) sum += matrix[g * inner + k] * in[n * inner + k];
      out[n * wide + g] += sum;
    }
  }
}

// Data is an element in memory, T the compute type.
template <typename Data, typename T>
class HostProgram final : public Program {
 public:
  explicit HostProgram(CellPtr cell) : cell_(std::move(cell)), math_(Math(spec(), T())) {
    for (size_t k = 0; k < weights().wb.size(); ++k) bias_.push_back(weights().wb[k] + weights().rb[k]);
  }

  std::unique_ptr<State> NewState() const override {
    auto state = std::make_unique<HostState<T>>();
    state->slot.resize(static_cast<size_t>(hidden() * (lstm() ? 2 : 1)));
    return state;
  }
  void ImportState(DataType type, const std::byte* h, const std::byte* c, State& state) const override {
    auto& slot = static_cast<HostState<T>&>(state).slot;
    std::fill(slot.begin(), slot.end(), T(0));
    auto* bytes = reinterpret_cast<std::byte*>(slot.data());
    const auto count = static_cast<size_t>(hidden());
    if (h != nullptr) ConvertElements(type, h, compute(), bytes, count);
    if (lstm() && c != nullptr) ConvertElements(type, c, compute(), bytes + count * sizeof(T), count);
  }
  void ExportState(const State& state, DataType type, std::byte* h, std::byte* c) const override {
    const auto* bytes = reinterpret_cast<const std::byte*>(static_cast<const HostState<T>&>(state).slot.data());
    const auto count = static_cast<size_t>(hidden());
    if (h != nullptr) ConvertElements(compute(), bytes, type, h, count);
    if (lstm() && c != nullptr) ConvertElements(compute(), bytes + count * sizeof(T), type, c, count);
  }
  std::unique_ptr<Workspace> NewWorkspace() const override { return std::make_unique<Workspace>(); }
  int64_t packed_bytes() const override { return 0; }

  absl::Status Advance(std::span<const SequenceSlice> given, Workspace&) const override {
    std::vector<SequenceSlice> slices(given.begin(), given.end());
    std::stable_sort(slices.begin(), slices.end(), [](auto& a, auto& b) { return a.steps > b.steps; });
    std::vector<int64_t> steps;
    for (const SequenceSlice& slice : slices) steps.push_back(slice.steps);

    const size_t states = slices.size() * static_cast<size_t>(hidden());
    std::vector<T> h(states), c(lstm() ? states : 0);
    T* const c_or_null = lstm() ? c.data() : nullptr;
    for (size_t k = 0; k < slices.size(); ++k) {
      const auto* before = static_cast<const HostState<T>*>(slices[k].before);
      for (const RowShare share : kShares) {
        GatherRow(before == nullptr ? nullptr : before->slot.data(), h.data(), c_or_null, static_cast<int64_t>(k),
                  hidden(), share);
      }
    }
    Block block = MakeBlock(steps, 0, kBlockSteps);
    for (int64_t first_step = 0; block.active > 0; block = MakeBlock(steps, first_step, kBlockSteps)) {
      RunBlock(slices, block, h, c);
      for (int k = block.continuing; k < block.active; ++k) {
        auto& slot = static_cast<HostState<T>*>(slices[static_cast<size_t>(k)].after)->slot;
        for (const RowShare share : kShares) ScatterRow(h.data(), c_or_null, slot.data(), k, hidden(), share);
      }
      first_step += block.steps;
    }
    return absl::OkStatus();
  }

 private:
  const CellSpec& spec() const { return cell_->spec(); }
  const CellWeights<T>& weights() const { return cell_->template weights<T>(); }
  int64_t hidden() const { return spec().hidden_size; }
  int64_t inputs() const { return spec().input_size; }
  int64_t wide() const { return GateCount(spec().kind) * hidden(); }
  bool lstm() const { return spec().kind == CellKind::kLstm; }
  static DataType compute() { return sizeof(T) == sizeof(double) ? DataType::kDouble : DataType::kFloat; }

  void RunBlock(const std::vector<SequenceSlice>& slices, const Block& block, std::vector<T>& h,
                std::vector<T>& c) const {
    const auto active = static_cast<size_t>(block.active);
    const auto rows = static_cast<size_t>(block.rows);
    const size_t x_row = static_cast<size_t>(inputs()) * sizeof(Data),
                 y_row = static_cast<size_t>(hidden()) * sizeof(Data);
    std::vector<Data> staged_x(rows * static_cast<size_t>(inputs())), staged_y(rows * static_cast<size_t>(hidden()));
    std::vector<T> x(staged_x.size()), y(staged_y.size());
    std::vector<Walk> walks_x, walks_y;
    std::vector<Staging> y_plans;
    int64_t row = 0;
    for (size_t k = 0; k < active; ++k) {
      const SequenceSlice& slice = slices[k];
      const int64_t length = block.lengths[k];
      const Staging plan = PlanStaging(slice.x_stride, length, inputs(), sizeof(Data), row * inputs());
      walks_x.push_back(plan.walk);
      if (inputs() > 0) {
        CopyRows(StageIn(plan, slice.x + block.first_step * slice.x_stride, slice.x_stride, length, x_row,
                         reinterpret_cast<std::byte*>(staged_x.data() + row * inputs())));
      }
      y_plans.push_back(PlanStaging(slice.y_stride, length, hidden(), sizeof(Data), row * hidden()));
      walks_y.push_back(slice.y != nullptr ? y_plans.back().walk : Walk{-1, 0});
      row += length;
    }
    for (int64_t at = 0; at < block.rows; ++at) {
      for (const RowShare share : kShares) {
        PackRow(staged_x.data(), x.data(), walks_x.data(), block.offsets.data(), block.steps, at, inputs(), share);
      }
    }
    Compute(block, x.data(), y.data(), h.data(), c.data());
    for (int64_t at = 0; at < block.rows; ++at) {
      for (const RowShare share : kShares) {
        UnpackRow(y.data(), staged_y.data(), walks_y.data(), block.offsets.data(), block.steps, at, hidden(), share);
      }
    }
    row = 0;
    for (size_t k = 0; k < active; ++k) {
      const SequenceSlice& slice = slices[k];
      if (slice.y != nullptr) {
        CopyRows(StageOut(y_plans[k], slice.y + block.first_step * slice.y_stride, slice.y_stride, block.lengths[k],
                          y_row, reinterpret_cast<const std::byte*>(staged_y.data() + row * hidden())));
      }
      row += block.lengths[k];
    }
  }

  // GeneralPath::RunTyped with h and c in place.
  void Compute(const Block& block, const T* x, T* y, T* h, T* c) const {
    const T* r = weights().r.data();
    const T* wb = weights().wb.data();
    const T* rb = weights().rb.data();
    const T* p = weights().p.empty() ? nullptr : weights().p.data();
    std::vector<T> gates(static_cast<size_t>(block.rows * wide()));
    Product(weights().w.data(), x, gates.data(), block.rows, wide(), inputs(), wide());
    for (int t = 0; t < block.steps; ++t) {
      const int rows = ActiveAt(block, t);
      const int64_t units = rows * hidden(), offset = block.offsets[static_cast<size_t>(t)];
      T* pre = gates.data() + offset * wide();
      T* out = y + offset * hidden();
      std::vector<T> aside(static_cast<size_t>(rows * wide()));
      const GruStep<T> gru{pre, aside.data(), wb, rb, h, aside.data(), h, out, rows, hidden(), math_};
      if (spec().kind == CellKind::kGru && spec().linear_before_reset) {
        Product(r, h, aside.data(), rows, wide(), hidden(), wide());
        for (int64_t at = 0; at < units; ++at) GruLinearAt(gru, at);
        continue;
      }
      if (spec().kind == CellKind::kGru) {
        Product(r, h, pre, rows, 2 * hidden(), hidden(), wide());
        for (int64_t at = 0; at < units; ++at) GruResetAt(gru, at);
        Product(r + 2 * hidden() * hidden(), aside.data(), pre + 2 * hidden(), rows, hidden(), hidden(), wide());
        for (int64_t at = 0; at < units; ++at) GruBlendAt(gru, at);
        continue;
      }
      Product(r, h, pre, rows, wide(), hidden(), wide());
      for (int64_t at = 0; at < units; ++at) {
        if (lstm()) {
          LstmAt<T>({pre, bias_.data(), p, c, c, h, out, rows, hidden(), math_}, at);
        } else {
          RnnAt<T>({pre, bias_.data(), h, out, rows, hidden(), math_}, at);
        }
      }
    }
  }

  const CellPtr cell_;
  const CellMath<T> math_;
  std::vector<T> bias_;
};

class HostEngine final : public Engine {
 public:
  std::string_view name() const override { return "cuda on the host"; }
  absl::Status Supports(const CellSpec&, const EngineOptions&) const override { return absl::OkStatus(); }
  absl::StatusOr<ProgramPtr> Compile(CellPtr cell, const EngineOptions&) const override {
    switch (cell->spec().data_type) {
      case DataType::kDouble:
        return std::make_shared<const HostProgram<double, double>>(std::move(cell));
      case DataType::kFloat16:
        return std::make_shared<const HostProgram<Half, float>>(std::move(cell));
      case DataType::kBFloat16:
        return std::make_shared<const HostProgram<BFloat16, float>>(std::move(cell));
      default:
        return std::make_shared<const HostProgram<float, float>>(std::move(cell));
    }
  }
};

}  // namespace

std::unique_ptr<Engine> MakeHostEngine() { return std::make_unique<HostEngine>(); }

}  // namespace rnnserve::cuda
