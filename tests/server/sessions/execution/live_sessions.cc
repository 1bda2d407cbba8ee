// SPDX-License-Identifier: Apache-2.0
#include "tests/server/sessions/execution/live_sessions.h"

#include <future>
#include <utility>

#include "engine/cpu/cpu_engine.h"
#include "engine/onednn/onednn_engine.h"
#include "engine/reference/reference_engine.h"
#include "tests/engine/support/partial_programs.h"
#include "tests/server/core/run_infer.h"

namespace rnnserve {

void SliceSizes::Note(size_t sequences) {
  const std::lock_guard lock(mutex_);
  if (sequences_by_size_.size() <= sequences) sequences_by_size_.resize(sequences + 1);
  sequences_by_size_[sequences] += static_cast<int64_t>(sequences);
}

int64_t SliceSizes::Median() const {
  const std::lock_guard lock(mutex_);
  int64_t all = 0, seen = 0;
  for (const int64_t sequences : sequences_by_size_) all += sequences;
  for (size_t size = 0; size < sequences_by_size_.size(); ++size) {
    seen += sequences_by_size_[size];
    if (2 * seen >= all) return static_cast<int64_t>(size);
  }
  return 0;
}

class LiveSessions::Counting final : public Engine {
 public:
  Counting(std::unique_ptr<Engine> target, SliceSizes* sizes) : target_(std::move(target)), sizes_(sizes) {}
  std::string_view name() const override { return target_->name(); }
  absl::Status Supports(const CellSpec& cell, const EngineOptions& options) const override {
    return target_->Supports(cell, options);
  }
  absl::StatusOr<ProgramPtr> Compile(CellPtr cell, const EngineOptions& options) const override {
    absl::StatusOr<ProgramPtr> program = target_->Compile(std::move(cell), options);
    if (!program.ok()) return program;
    return std::make_shared<CountingProgram>(*std::move(program), sizes_);
  }

 private:
  class CountingProgram final : public WrappedProgram {
   public:
    CountingProgram(ProgramPtr target, SliceSizes* sizes) : WrappedProgram(std::move(target)), sizes_(sizes) {}
    absl::Status Advance(std::span<const SequenceSlice> slices, Workspace& workspace) const override {
      sizes_->Note(slices.size());
      return target_->Advance(slices, workspace);
    }

   private:
    SliceSizes* const sizes_;
  };

  const std::unique_ptr<Engine> target_;
  SliceSizes* const sizes_;
};

LiveSessions::LiveSessions(Core::Options options, BatchQueue::Options queue) : scheduler_(queue) {
  for (auto make : {MakeReferenceEngine, MakeCpuEngine, MakeOneDnnEngine}) {
    engines_.push_back(std::make_unique<Counting>(make(), &slices_));
  }
  std::vector<const Engine*> engines;
  for (const auto& engine : engines_) engines.push_back(engine.get());
  core_ = std::make_unique<Core>(options, std::move(engines), &models_, &programs_, &scheduler_);
  sessions_ = std::make_unique<SessionCore>(SessionCore::Options{}, core_.get(), &kept_, &clock_);
}

LiveSessions::~LiveSessions() = default;

absl::StatusOr<std::string> LiveSessions::Open(OpenCall call) {
  std::promise<absl::StatusOr<std::string>> opened;
  sessions_->Open(std::move(call), [&](absl::StatusOr<OpenReply> reply) {
    if (reply.ok()) {
      opened.set_value(reply->key);
    } else {
      opened.set_value(reply.status());
    }
  });
  return opened.get_future().get();
}

absl::StatusOr<InferReply> LiveSessions::Infer(const InferCall& call) {
  std::promise<absl::StatusOr<InferReply>> answered;
  RunInfer(*core_, call, [&](absl::StatusOr<InferReply> reply) { answered.set_value(std::move(reply)); });
  return answered.get_future().get();
}

absl::StatusOr<StateReply> LiveSessions::GetState(const std::string& session) {
  std::promise<absl::StatusOr<StateReply>> answered;
  ReadCall call;
  call.session = session;
  sessions_->GetState(std::move(call), [&](absl::StatusOr<StateReply> reply) { answered.set_value(std::move(reply)); });
  return answered.get_future().get();
}

void OperationPipeline::Send(const std::string& session, uint64_t number, std::vector<OwnedTensor> inputs,
                             std::optional<std::vector<std::string>> outputs) {
  inputs_.push_back(std::move(inputs));
  OperationCall call;
  call.session = session;
  call.number = number;
  call.kind = ChunkOp{Views(inputs_.back()), std::move(outputs)};
  Apply(std::move(call));
}

void OperationPipeline::Reset(const std::string& session, uint64_t number) {
  OperationCall call;
  call.session = session;
  call.number = number;
  call.kind = ResetOp{};
  Apply(std::move(call));
}

void OperationPipeline::Apply(OperationCall call) {
  call.owner = &owner_;
  std::optional<ApplyReply>* place = nullptr;
  {
    const std::lock_guard lock(mutex_);
    place = &answers_.emplace_back();  // a deque's elements stay where they are
    ++missing_;
  }
  sessions_.Apply(std::move(call), [this, place](ApplyReply answer) {
    const std::lock_guard lock(mutex_);
    *place = std::move(answer);
    --missing_;
    changed_.notify_all();
  });
}

std::vector<ApplyReply> OperationPipeline::Answers() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return missing_ == 0; });
  std::vector<ApplyReply> answers;
  for (std::optional<ApplyReply>& answer : answers_) answers.push_back(*std::move(answer));
  answers_.clear();
  inputs_.clear();
  return answers;
}

}  // namespace rnnserve
