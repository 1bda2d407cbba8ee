// SPDX-License-Identifier: Apache-2.0
// A row's state in 16 bits, for sessions that were opened so: half the memory, rounded once after each chunk. Programs
// never see it: it is widened before a chunk and made anew after it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "engine/engine.h"

namespace rnnserve {

// h, and c of an LSTM behind it, H elements of `type` each. Its memory is zeroed before it is given back.
class NarrowState final : public State {
 public:
  struct Form {
    DataType type;  // FLOAT16 or BFLOAT16
    size_t hidden_size;
    bool has_cell;  // c

    size_t values() const { return hidden_size * (has_cell ? 2 : 1); }
    bool operator==(const Form&) const = default;
  };

  // From float32; null: zeros.
  NarrowState(Form form, const std::byte* h, const std::byte* c);
  ~NarrowState() override;

  // To float32; null: not wanted.
  void Export(std::byte* h, std::byte* c) const;

 private:
  std::byte* part(bool cell) const { return bytes_.get() + (cell ? form_.hidden_size * ByteSize(form_.type) : 0); }

  const Form form_;
  const std::unique_ptr<std::byte[]> bytes_;
};

// What `program` goes on from, as it takes it. The state may have failed, as any of that program.
std::shared_ptr<const State> Widened(const ProgramPtr& program, const NarrowState& state,
                                     const NarrowState::Form& form);
// The inverse, rounded to nearest even. An error if `state` is lost.
absl::StatusOr<std::shared_ptr<const State>> Narrowed(const Program& program, const State& state,
                                                      const NarrowState::Form& form);

}  // namespace rnnserve
