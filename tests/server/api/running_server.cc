// SPDX-License-Identifier: Apache-2.0
#include "tests/server/api/running_server.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rnnserve {

absl::Status CancellationSpy::Schedule(Submission&& submission) {
  {
    std::lock_guard lock(mutex_);
    last_ = submission.cancelled;
  }
  return target_->Schedule(std::move(submission));
}

std::shared_ptr<const std::atomic<bool>> CancellationSpy::last() const {
  std::lock_guard lock(mutex_);
  return last_;
}

RunningServer::RunningServer(Setup setup)
    : fake("fake", {.before_slice = std::move(setup.before_slice)}),
      workers({.workers = setup.workers, .max_sequences = setup.max_queued_sequences}),
      core(setup.core, {&fake, reference.get()}, &store, &programs, &cancellation) {
  setup.server.listen = {"127.0.0.1:0"};
#ifdef RNNSERVE_PACED_LISTENER
  if (setup.own_listener) setup.server.make_listener = &MakePacedListener;
#endif
  absl::StatusOr<std::unique_ptr<GrpcServer>> started = GrpcServer::Start(setup.server, &core, &session_core);
  if (!started.ok()) {
    std::fprintf(stderr, "%s\n", started.status().ToString().c_str());
    std::abort();
  }
  server = *std::move(started);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  channel = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server->ports()[0]),
                                      grpc::InsecureChannelCredentials(), arguments);
  recurrent = v1::Recurrent::NewStub(channel);
  models = v1::Models::NewStub(channel);
}

void AddTensor(google::protobuf::RepeatedPtrField<v1::Tensor>& tensors, const std::string& name,
               std::vector<int64_t> shape, std::vector<float> values) {
  v1::Tensor& tensor = *tensors.Add();
  tensor.set_name(name);
  tensor.set_data_type(v1::FLOAT);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  tensor.mutable_float_data()->Add(values.begin(), values.end());
}

v1::InferRequest RnnRequest(std::vector<float> x, const std::string& engine) {
  v1::InferRequest request;
  request.mutable_operator_()->set_op_type("RNN");
  request.mutable_operator_()->set_version(14);
  (*request.mutable_operator_()->mutable_attributes())["hidden_size"].set_i(1);
  AddTensor(*request.mutable_inputs(), "X", {static_cast<int64_t>(x.size()), 1, 1}, x);
  AddTensor(*request.mutable_inputs(), "W", {1, 1, 1}, {0.5});
  AddTensor(*request.mutable_inputs(), "R", {1, 1, 1}, {0.25});
  request.set_engine(engine);
  return request;
}

std::vector<float> Values(const v1::Tensor& tensor) {
  std::vector<float> values(tensor.raw().size() / sizeof(float));
  std::memcpy(values.data(), tensor.raw().data(), values.size() * sizeof(float));
  return values;
}

}  // namespace rnnserve
