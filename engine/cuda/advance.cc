// SPDX-License-Identifier: Apache-2.0
// Program::Advance: host slices to packed blocks on the device and back.
//
//   pinned: [in slots][out slots][imported states][spent slots][offsets][walks of x][walks of y][x]
//      -- one copy -->  staging
//   staging x  -- pack -->  x [rows, I]            (left out where the two are the same)
//   slots      -- gather ->  h, c [active, H]
//              -- Compute (cuDNN or general) -->  y [rows, H], h', c'
//   h', c'     -- scatter -> slots                 (slices that end in this block; the others stay packed)
//   y          -- unpack -->  staged y  -- one copy -->  pinned  -->  host slices
//   spent slots, of sessions that are gone, are wiped on the way
#include <algorithm>

#include "engine/cuda/error.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/program.h"

namespace rnnserve::cuda {
namespace {

// Lays parts out one after the other, each on 256 bytes.
class Carver {
 public:
  size_t Add(size_t bytes) {
    const size_t at = size_;
    size_ += (bytes + 255) / 256 * 256;
    return at;
  }
  size_t size() const { return size_; }

 private:
  size_t size_ = 0;
};

const StateHandle* Handle(const rnnserve_state* state) { return reinterpret_cast<const StateHandle*>(state); }
StateHandle* Handle(rnnserve_state* state) { return reinterpret_cast<StateHandle*>(state); }

}  // namespace

struct Program::Group {
  std::vector<const rnnserve_slice*> slices;
  std::vector<int64_t> steps;
};

int64_t Program::BytesPerRow() const {
  const auto data = static_cast<int64_t>(ElementBytes(cell_.data_type));
  const auto run = static_cast<int64_t>(ElementBytes(run_type_));
  const auto compute = static_cast<int64_t>(ElementBytes(compute_type()));
  const int64_t gates = 2 * GateCount(cell_.kind) * cell_.hidden_size * compute;
  return (cell_.input_size + cell_.hidden_size) * (data + run) + gates + 4 * cell_.hidden_size * run + 64;
}

void Program::Advance(std::span<const rnnserve_slice> slices) const {
  if (slices.empty()) return;
  std::vector<const rnnserve_slice*> sorted;
  sorted.reserve(slices.size());
  for (const rnnserve_slice& slice : slices) sorted.push_back(&slice);
  const auto longer = [](const rnnserve_slice* a, const rnnserve_slice* b) { return a->steps > b->steps; };
  if (!std::is_sorted(sorted.begin(), sorted.end(), longer)) std::stable_sort(sorted.begin(), sorted.end(), longer);

  const int64_t rows_a_block = std::clamp<int64_t>(device_.block_bytes() / BytesPerRow(), 1, int64_t{1} << 22);
  SpentSlots spent(device_);  // goes after the lease, which waits until nothing writes to them any more
  const ContextLease lease(device_);
  for (size_t first = 0; first < sorted.size();) {
    const size_t count = std::min(sorted.size() - first, static_cast<size_t>(rows_a_block));
    Group group;
    group.slices.assign(sorted.begin() + static_cast<std::ptrdiff_t>(first),
                        sorted.begin() + static_cast<std::ptrdiff_t>(first + count));
    for (const rnnserve_slice* slice : group.slices) group.steps.push_back(slice->steps);
    AdvanceGroup(lease.context(), group, std::max<int64_t>(1, rows_a_block / static_cast<int64_t>(count)),
                 first == 0 ? std::span(spent.slots()) : std::span<const SpentSlot>());
    first += count;
  }
  spent.SetWiped();
  for (const rnnserve_slice& slice : slices) {
    StateHandle* after = Handle(slice.after);
    after->where = StateHandle::Where::kDevice;
    after->WipeHost();
  }
}

// NOLINTNEXTLINE(readability-function-size): one buffer's offsets; to be cut when a GPU has run it.
void Program::AdvanceGroup(ExecutionContext& context, const Group& group, int64_t max_steps,
                           std::span<const SpentSlot> spent) const {
  const cudaStream_t stream = context.stream();
  const int64_t inputs = cell_.input_size;
  const int64_t hidden = cell_.hidden_size;
  const size_t data_bytes = ElementBytes(cell_.data_type);
  const size_t run_bytes = ElementBytes(run_type_);
  const size_t state_part = state_bytes();

  size_t imported = 0;
  for (const rnnserve_slice* slice : group.slices) {
    if (slice->before != nullptr && Handle(slice->before)->where == StateHandle::Where::kHost) ++imported;
  }

  // The working buffer is sized for the first block, which is the largest, and keeps the states between blocks.
  Block block = MakeBlock(group.steps, 0, max_steps);
  const auto rows0 = static_cast<size_t>(block.rows);
  const auto active0 = static_cast<size_t>(block.active);
  const size_t state_packed = active0 * static_cast<size_t>(hidden) * run_bytes;
  Carver working;
  const size_t at_x = working.Add(rows0 * static_cast<size_t>(inputs) * run_bytes);
  const size_t at_y = working.Add(rows0 * static_cast<size_t>(hidden) * run_bytes);
  const size_t at_y_staged = working.Add(rows0 * static_cast<size_t>(hidden) * data_bytes);
  size_t at_h[2], at_c[2];
  for (int k = 0; k < 2; ++k) {
    at_h[k] = working.Add(state_packed);
    at_c[k] = working.Add(lstm() ? state_packed : 0);
  }
  const size_t at_temporary = working.Add(general_ ? general_->TemporaryBytes(block.rows, block.active) : 0);
  std::byte* const memory = context.Working(working.size());

  int current = 0;  // which of the two state buffers holds the states before the block
  std::vector<Staging> x_plans, y_plans;
  for (int64_t first_step = 0; block.active > 0; current ^= 1) {
    const auto active = static_cast<size_t>(block.active);
    const bool first_block = first_step == 0;
    const bool plain = block.steps == 1 && run_type_ == cell_.data_type;  // staged is packed

    Carver in;
    const size_t in_slots = in.Add(first_block ? active * sizeof(void*) : 0);
    const size_t out_slots = in.Add(active * sizeof(void*));
    const size_t in_states = in.Add(first_block ? imported * state_part : 0);
    const size_t in_spent = in.Add(first_block ? spent.size_bytes() : 0);
    const size_t in_offsets = in.Add(static_cast<size_t>(block.steps) * sizeof(int64_t));
    const size_t in_walks_x = in.Add(active * sizeof(Walk));
    const size_t in_walks_y = in.Add(active * sizeof(Walk));
    const size_t in_x = in.Add(static_cast<size_t>(block.rows) * static_cast<size_t>(inputs) * data_bytes);
    std::byte* const host = context.PinnedIn(in.size());
    std::byte* const staged = context.Staging(in.size());

    auto* slots_in = reinterpret_cast<const void**>(host + in_slots);
    auto* slots_out = reinterpret_cast<void**>(host + out_slots);
    auto* walks_x = reinterpret_cast<Walk*>(host + in_walks_x);
    auto* walks_y = reinterpret_cast<Walk*>(host + in_walks_y);
    std::memcpy(host + in_offsets, block.offsets.data(), block.offsets.size() * sizeof(int64_t));
    if (first_block && !spent.empty()) std::memcpy(host + in_spent, spent.data(), spent.size_bytes());
    x_plans.clear();
    y_plans.clear();
    bool any_y = false;
    int64_t row = 0;
    size_t state = 0;
    const size_t x_row = static_cast<size_t>(inputs) * data_bytes;
    const size_t y_row = static_cast<size_t>(hidden) * data_bytes;
    for (size_t k = 0; k < active; ++k) {
      const rnnserve_slice& slice = *group.slices[k];
      const int64_t length = block.lengths[k];
      const auto* x = static_cast<const std::byte*>(slice.x);
      const Staging x_plan = PlanStaging(slice.x_stride, length, inputs, data_bytes, row * inputs);
      walks_x[k] = x_plan.walk;
      if (inputs > 0) {
        StageIn(x_plan, x + first_step * slice.x_stride, slice.x_stride, length, x_row,
                host + in_x + static_cast<size_t>(row) * x_row);
      }
      y_plans.push_back(PlanStaging(slice.y_stride, length, hidden, data_bytes, row * hidden));
      walks_y[k] = slice.y != nullptr ? y_plans.back().walk : Walk{-1, 0};
      any_y = any_y || slice.y != nullptr;
      slots_out[k] = Handle(slice.after)->slot();
      if (first_block) {
        const StateHandle* before = Handle(slice.before);
        if (before == nullptr || before->where == StateHandle::Where::kZero) {
          slots_in[k] = nullptr;
        } else if (before->where == StateHandle::Where::kDevice) {
          slots_in[k] = before->slot();
        } else {
          std::memcpy(host + in_states + state * state_part, before->host.data(), state_part);
          slots_in[k] = staged + in_states + state * state_part;
          ++state;
        }
      }
      row += length;
    }
    Check(cudaMemcpyAsync(staged, host, in.size(), cudaMemcpyHostToDevice, stream), "copying inputs to the device");

    const Walk* device_walks_y = reinterpret_cast<const Walk*>(staged + in_walks_y);
    const auto* offsets = reinterpret_cast<const int64_t*>(staged + in_offsets);
    const void* packed_x = staged + in_x;
    if (!plain) {
      LaunchPack(cell_.data_type, staged + in_x, run_type_, memory + at_x,
                 reinterpret_cast<const Walk*>(staged + in_walks_x), offsets, block, inputs, stream);
      packed_x = memory + at_x;
    }
    if (first_block) {
      LaunchGatherStates(compute_type(), reinterpret_cast<const void* const*>(staged + in_slots), run_type_,
                         memory + at_h[current], lstm() ? memory + at_c[current] : nullptr, block.active, hidden,
                         stream);
    }
    const int next = current ^ 1;
    Compute({context, block, packed_x, memory + at_y, memory + at_h[current], memory + at_c[current],
             memory + at_h[next], memory + at_c[next], memory + at_temporary, offsets});

    const int ending = block.active - block.continuing;
    if (ending > 0) {
      const size_t skip = static_cast<size_t>(block.continuing) * static_cast<size_t>(hidden) * run_bytes;
      LaunchScatterStates(run_type_, memory + at_h[next] + skip, lstm() ? memory + at_c[next] + skip : nullptr,
                          compute_type(), reinterpret_cast<void* const*>(staged + out_slots) + block.continuing, ending,
                          hidden, stream);
    }
    std::byte* host_y = nullptr;
    if (any_y) {
      const std::byte* staged_y = memory + at_y;
      if (!plain) {
        LaunchUnpack(run_type_, memory + at_y, cell_.data_type, memory + at_y_staged, device_walks_y, offsets, block,
                     hidden, stream);
        staged_y = memory + at_y_staged;
      }
      const size_t bytes = static_cast<size_t>(block.rows) * y_row;
      host_y = context.PinnedOut(bytes);
      Check(cudaMemcpyAsync(host_y, staged_y, bytes, cudaMemcpyDeviceToHost, stream),
            "copying outputs from the device");
    }
    if (first_block && !spent.empty()) {
      LaunchWipe(reinterpret_cast<const SpentSlot*>(staged + in_spent), static_cast<int>(spent.size()), stream);
    }
    CheckLaunch("launching kernels");
    context.Synchronize();

    row = 0;
    for (size_t k = 0; k < active && any_y; ++k) {
      const rnnserve_slice& slice = *group.slices[k];
      if (slice.y != nullptr) {
        StageOut(y_plans[k], static_cast<std::byte*>(slice.y) + first_step * slice.y_stride, slice.y_stride,
                 block.lengths[k], y_row, host_y + static_cast<size_t>(row) * y_row);
      }
      row += block.lengths[k];
    }
    first_step += block.steps;
    block = MakeBlock(group.steps, first_step, max_steps);
  }
}

}  // namespace rnnserve::cuda
