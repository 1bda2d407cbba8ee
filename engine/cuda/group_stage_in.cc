// SPDX-License-Identifier: Apache-2.0
// Program::Group: from the caller's slices to pinned memory.
#include <algorithm>
#include <cstring>

#include "engine/cuda/group.h"

namespace rnnserve::cuda {
namespace {

bool IsOnHost(const rnnserve_state* state) {
  return state != nullptr && Handle(state)->where == StateHandle::Where::kHost;
}

}  // namespace

Program::Group::Inputs Program::Group::LayOutInputs() const {
  const auto active = static_cast<size_t>(block_.active);
  const auto imported =
      std::ranges::count_if(slices_, [](const rnnserve_slice* slice) { return IsOnHost(slice->before); });
  Carver carver;
  Inputs in{};
  in.slots_before = carver.Add(first_block() ? active * sizeof(void*) : 0);
  in.slots_after = carver.Add(active * sizeof(void*));
  in.states = carver.Add(first_block() ? static_cast<size_t>(imported) * program_.state_bytes() : 0);
  in.spent = carver.Add(first_block() ? spent_.size_bytes() : 0);
  in.offsets = carver.Add(block_.offsets.size() * sizeof(int64_t));
  in.walks_x = carver.Add(active * sizeof(Walk));
  in.walks_y = carver.Add(active * sizeof(Walk));
  in.x = carver.Add(static_cast<size_t>(block_.rows) * x_row_bytes());
  in.size = carver.size();
  return in;
}

void Program::Group::StageInputs() {
  in_ = LayOutInputs();
  pinned_in_ = context_.PinnedIn(in_.size);
  staging_ = context_.Staging(in_.size);
  const auto active = static_cast<size_t>(block_.active);
  const auto wants_y = [](const rnnserve_slice* slice) { return slice->y != nullptr; };
  const bool any_y = std::ranges::any_of(slices_.first(active), wants_y);
  pinned_y_ = any_y ? context_.PinnedOut(static_cast<size_t>(block_.rows) * y_row_bytes()) : nullptr;

  std::memcpy(pinned<int64_t>(in_.offsets), block_.offsets.data(), block_.offsets.size() * sizeof(int64_t));
  if (first_block()) StageStates();
  const rnnserve_cell& cell = program_.cell_;
  const size_t element_bytes = ElementBytes(cell.data_type);
  x_copies_.Clear();
  y_copies_.Clear();
  int64_t row = 0;
  for (size_t k = 0; k < active; ++k) {
    const rnnserve_slice& slice = *slices_[k];
    const int64_t length = block_.lengths[k];
    const auto* x = static_cast<const std::byte*>(slice.x);
    const Staging x_plan = PlanStaging(slice.x_stride, length, cell.input_size, element_bytes, row * cell.input_size);
    pinned<Walk>(in_.walks_x)[k] = x_plan.walk;
    if (cell.input_size > 0) {
      x_copies_.Add(StageIn(x_plan, x + block_.first_step * slice.x_stride, slice.x_stride, length, x_row_bytes(),
                            pinned<std::byte>(in_.x) + static_cast<size_t>(row) * x_row_bytes()));
    }
    Walk& walk_y = pinned<Walk>(in_.walks_y)[k];
    walk_y = {-1, 0};
    if (slice.y != nullptr) {
      auto* y = static_cast<std::byte*>(slice.y);
      const Staging y_plan =
          PlanStaging(slice.y_stride, length, cell.hidden_size, element_bytes, row * cell.hidden_size);
      walk_y = y_plan.walk;
      y_copies_.Add(StageOut(y_plan, y + block_.first_step * slice.y_stride, slice.y_stride, length, y_row_bytes(),
                             pinned_y_ + static_cast<size_t>(row) * y_row_bytes()));
    }
    pinned<void*>(in_.slots_after)[k] = Handle(slice.after)->slot();
    row += length;
  }
  program_.device_.copy_pool().Run(x_copies_);
}

void Program::Group::StageStates() {
  if (!spent_.empty()) std::memcpy(pinned<std::byte>(in_.spent), spent_.data(), spent_.size_bytes());
  const size_t state_bytes = program_.state_bytes();
  size_t at = in_.states;
  for (size_t k = 0; k < slices_.size(); ++k) {
    const StateHandle* before = Handle(slices_[k]->before);
    const void*& slot = pinned<const void*>(in_.slots_before)[k];
    if (before == nullptr || before->where == StateHandle::Where::kZero) {
      slot = nullptr;
    } else if (before->where == StateHandle::Where::kDevice) {
      slot = before->slot();
    } else {
      std::memcpy(pinned<std::byte>(at), before->host.data(), state_bytes);
      slot = staged<std::byte>(at);
      at += state_bytes;
    }
  }
}

}  // namespace rnnserve::cuda
