// SPDX-License-Identifier: Apache-2.0
#include "server/sessions/execution/narrow_state.h"

#include <string.h>

#include <vector>

#include "engine/float16.h"
#include "server/core/call.h"

namespace rnnserve {
namespace {

// h and c in float32, for as long as it takes to convert them.
class Wide {
 public:
  explicit Wide(const NarrowState::Form& form) : form_(form), values_(form.values()) {}
  ~Wide() { explicit_bzero(values_.data(), values_.size() * sizeof(float)); }

  std::byte* h() { return reinterpret_cast<std::byte*>(values_.data()); }
  std::byte* c() { return form_.has_cell ? h() + form_.hidden_size * sizeof(float) : nullptr; }

 private:
  const NarrowState::Form& form_;
  std::vector<float> values_;
};

}  // namespace

NarrowState::NarrowState(Form form, const std::byte* h, const std::byte* c)
    : form_(form), bytes_(std::make_unique<std::byte[]>(form.values() * ByteSize(form.type))) {
  if (h != nullptr) ConvertElements(DataType::kFloat, h, form_.type, part(false), form_.hidden_size);
  if (c != nullptr && form_.has_cell) ConvertElements(DataType::kFloat, c, form_.type, part(true), form_.hidden_size);
}

NarrowState::~NarrowState() { explicit_bzero(bytes_.get(), form_.values() * ByteSize(form_.type)); }

void NarrowState::Export(std::byte* h, std::byte* c) const {
  if (h != nullptr) ConvertElements(form_.type, part(false), DataType::kFloat, h, form_.hidden_size);
  if (c != nullptr && form_.has_cell) ConvertElements(form_.type, part(true), DataType::kFloat, c, form_.hidden_size);
}

std::shared_ptr<const State> Widened(const ProgramPtr& program, const NarrowState& state,
                                     const NarrowState::Form& form) {
  Wide wide(form);
  state.Export(wide.h(), wide.c());
  std::shared_ptr<State> made(program->NewState().release(), WipeState{program, DataType::kFloat});
  program->ImportState(DataType::kFloat, wide.h(), wide.c(), *made);
  return made;
}

absl::StatusOr<std::shared_ptr<const State>> Narrowed(const Program& program, const State& state,
                                                      const NarrowState::Form& form) {
  Wide wide(form);
  program.ExportState(state, DataType::kFloat, wide.h(), wide.c());
  if (absl::Status failed = state.failure(); !failed.ok()) return failed;
  return std::make_shared<const NarrowState>(form, wide.h(), wide.c());
}

}  // namespace rnnserve
