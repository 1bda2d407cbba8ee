// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/group.h"

namespace rnnserve::cuda {

Program::Group::Group(const Program& program, ExecutionContext& context, std::span<const rnnserve_slice* const> slices,
                      int64_t max_steps, std::span<const SpentSlot> spent)
    : program_(program), context_(context), slices_(slices), max_steps_(max_steps), spent_(spent) {
  steps_.reserve(slices.size());
  for (const rnnserve_slice* slice : slices) steps_.push_back(slice->steps);
  block_ = MakeBlock(steps_, 0, max_steps_);
  at_ = LayOutWorking();
}

Program::Group::Working Program::Group::LayOutWorking() const {
  const auto rows = static_cast<size_t>(block_.rows);
  const auto inputs = static_cast<size_t>(program_.cell_.input_size);
  const auto hidden = static_cast<size_t>(program_.cell_.hidden_size);
  const size_t run_bytes = ElementBytes(program_.run_type_);
  const size_t states = static_cast<size_t>(block_.active) * hidden * run_bytes;
  Carver carver;
  Working at{};
  at.x = carver.Add(rows * inputs * run_bytes);
  at.y = carver.Add(rows * hidden * run_bytes);
  at.y_staged = carver.Add(rows * y_row_bytes());
  for (int k = 0; k < 2; ++k) {
    at.h[k] = carver.Add(states);
    at.c[k] = carver.Add(program_.lstm() ? states : 0);
  }
  const GeneralPath* general = program_.general_.get();
  at.temporary = carver.Add(general != nullptr ? general->TemporaryBytes(block_.rows, block_.active) : 0);
  at.size = carver.size();
  return at;
}

void Program::Group::Start() {
  if (first_block()) working_ = context_.Working(at_.size);
  StageInputs();
  LaunchInputs();
  const int next = current_ ^ 1;
  program_.Compute({context_, block_, plain() ? staged<void>(in_.x) : working_ + at_.x, working_ + at_.y,
                    working_ + at_.h[current_], working_ + at_.c[current_], working_ + at_.h[next],
                    working_ + at_.c[next], working_ + at_.temporary, staged<const int64_t>(in_.offsets)});
}

void Program::Group::Finish() {
  context_.Synchronize();
  if (pinned_y_ != nullptr) program_.device_.copy_pool().Run(y_copies_);
  block_ = MakeBlock(steps_, block_.first_step + block_.steps, max_steps_);
  current_ ^= 1;
}

}  // namespace rnnserve::cuda
