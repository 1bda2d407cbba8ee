// SPDX-License-Identifier: Apache-2.0
// Slices that run together on one context, block by block:
//
//   Program::Group group(program, context, slices, max_steps, spent);
//   while (group.more()) {
//     group.Start();         // stages a block in and launches its computation: asynchronous
//     group.StartOutputs();  // likewise: new states to their slots, y to pinned memory
//     group.Finish();        // waits for the device and stages y out
//   }
//
// What happens to a block (group_stage_in.cc, group_launch.cc, group.cc):
//
//   pinned: [in slots][out slots][imported states][spent slots][offsets][walks of x][walks of y][x]
//      -- one copy -->  staging
//   staging x  -- pack -->  x [rows, I]            (left out where the two are the same)
//   slots      -- gather ->  h, c [active, H]
//              -- Compute (the fastest way) -->  y [rows, H], h', c'
//   h', c'     -- scatter -> slots                 (slices that end in this block; the others stay packed)
//   y          -- unpack -->  staged y  -- one copy -->  pinned  -->  host slices
//   spent slots, of sessions that are gone, are wiped on the way
#pragma once

#include <span>
#include <vector>

#include "engine/cuda/program.h"

namespace rnnserve::cuda {

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

inline const StateHandle* Handle(const rnnserve_state* state) { return reinterpret_cast<const StateHandle*>(state); }
inline StateHandle* Handle(rnnserve_state* state) { return reinterpret_cast<StateHandle*>(state); }

class Program::Group {
 public:
  // `slices` are sorted by falling length. All arguments outlive the group; the context is idle and stays the group's
  // until the last Finish. The first block also wipes the slots `spent`.
  Group(const Program& program, ExecutionContext& context, std::span<const rnnserve_slice* const> slices,
        int64_t max_steps, std::span<const SpentSlot> spent);

  bool more() const { return block_.active > 0; }
  // Changes no state: where it throws for lack of memory, another group can do the same.
  void Start();
  void StartOutputs();
  void Finish();
  const ExecutionContext& context() const { return context_; }

 private:
  // Offsets of a block's inputs in pinned memory and, after the copy, in the staging buffer.
  struct Inputs {
    size_t slots_before, slots_after, states, spent, offsets, walks_x, walks_y, x, size;
  };
  // Offsets in the working buffer: sized for the first block, which is the largest; keeps the states between blocks.
  struct Working {
    size_t x, y, y_staged, h[2], c[2], temporary, size;
  };

  Inputs LayOutInputs() const;
  Working LayOutWorking() const;
  void StageInputs();
  void StageStates();
  void LaunchInputs();

  bool first_block() const { return block_.first_step == 0; }
  // One step a slice in the run type: staged rows are packed rows.
  bool plain() const { return block_.steps == 1 && program_.run_type_ == program_.cell_.data_type; }
  size_t x_row_bytes() const {
    return static_cast<size_t>(program_.cell_.input_size) * ElementBytes(program_.cell_.data_type);
  }
  size_t y_row_bytes() const {
    return static_cast<size_t>(program_.cell_.hidden_size) * ElementBytes(program_.cell_.data_type);
  }
  template <typename T>
  T* pinned(size_t at) const {
    return reinterpret_cast<T*>(pinned_in_ + at);
  }
  template <typename T>
  T* staged(size_t at) const {
    return reinterpret_cast<T*>(staging_ + at);
  }

  const Program& program_;
  ExecutionContext& context_;
  const std::span<const rnnserve_slice* const> slices_;
  const int64_t max_steps_;
  const std::span<const SpentSlot> spent_;
  std::vector<int64_t> steps_;
  Block block_;      // the next one to start, or the one started
  int current_ = 0;  // which of the two state buffers holds the states before the block
  Inputs in_{};
  Working at_{};
  std::byte* pinned_in_ = nullptr;
  std::byte* staging_ = nullptr;
  std::byte* working_ = nullptr;
  std::byte* pinned_y_ = nullptr;  // null: no slice of the block wants y
  RowCopies x_copies_, y_copies_;
};

}  // namespace rnnserve::cuda
