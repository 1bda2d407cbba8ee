// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/field_error.h"
#include "client/cpp/status.h"
#include "tests/client/cpp/fake_server.h"

namespace rnnserve::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<Client> Connect(const std::string& address, ClientOptions options = {}) {
  return Client::Create(address, options).value();
}

v1::Tensor WireTensor(const std::string& name, std::vector<float> values) {
  v1::Tensor tensor;
  tensor.set_name(name);
  tensor.set_data_type(v1::FLOAT);
  tensor.add_shape(static_cast<int64_t>(values.size()));
  tensor.set_raw(values.data(), values.size() * sizeof(float));
  return tensor;
}

TEST(ClientTest, SendsAnOperatorAsGivenAndReadsTheReply) {
  FakeServer server;
  v1::InferRequest seen;
  server.on_infer = [&](const v1::InferRequest& request, v1::InferResponse& reply) {
    seen = request;
    reply.set_request_id(request.request_id());
    *reply.add_outputs() = WireTensor("Y", {0.5f, -2});
    reply.set_engine("cpu");
    reply.set_fingerprint("abc");
    reply.mutable_queue_time()->set_nanos(1500);
    reply.mutable_compute_time()->set_seconds(2);
    reply.set_largest_batch(7);
    reply.add_warnings("beware");
    return FakeStatus{};
  };
  OperatorDef op;
  op.op_type = "LSTM";
  op.domain = "ai.onnx";
  op.opset = 14;
  op.attributes = {{"clip", 3.5f},
                   {"layout", int64_t{1}},
                   {"direction", std::string("reverse")},
                   {"activations", std::vector<std::string>{"Tanh", "Relu", "Tanh"}},
                   {"activation_alpha", std::vector<float>{0.25f, 2}},
                   {"sizes", std::vector<int64_t>{3, 4}}};
  InferOptions options;
  options.outputs = {"Y"};
  options.options.clip_cell_input = false;
  options.options.empty_row_state = EmptyRowState::kInitial;
  options.options.weight_type = WeightType::kBFloat16;
  options.engine = "reference";
  options.priority = -3;
  options.request_id = "r1";
  const auto result =
      Connect(server.address())->Infer(op, {MakeTensor("X", {2, 1, 1}, std::vector<float>{1, 2})}, options);
  ASSERT_TRUE(result.ok()) << result.status();

  EXPECT_EQ(seen.operator_().op_type(), "LSTM");
  EXPECT_EQ(seen.operator_().domain(), "ai.onnx");
  EXPECT_EQ(seen.operator_().opset(), 14);
  EXPECT_FALSE(seen.operator_().has_version());
  const auto& attributes = seen.operator_().attributes();
  EXPECT_EQ(attributes.at("clip").f(), 3.5f);
  EXPECT_EQ(attributes.at("layout").i(), 1);
  EXPECT_EQ(attributes.at("direction").s(), "reverse");
  EXPECT_THAT(attributes.at("activations").strings().values(), ElementsAre("Tanh", "Relu", "Tanh"));
  EXPECT_THAT(attributes.at("activation_alpha").floats().values(), ElementsAre(0.25f, 2));
  EXPECT_THAT(attributes.at("sizes").ints().values(), ElementsAre(3, 4));
  ASSERT_EQ(seen.inputs_size(), 1);
  EXPECT_EQ(seen.inputs(0).name(), "X");
  EXPECT_EQ(seen.inputs(0).data_type(), v1::FLOAT);
  EXPECT_THAT(seen.inputs(0).shape(), ElementsAre(2, 1, 1));
  EXPECT_EQ(seen.inputs(0).raw().size(), 8u);
  EXPECT_THAT(seen.outputs(), ElementsAre("Y"));
  EXPECT_TRUE(seen.options().has_clip_cell_input());
  EXPECT_FALSE(seen.options().clip_cell_input());
  EXPECT_EQ(seen.options().empty_row_state(), v1::INITIAL);
  EXPECT_EQ(seen.options().weight_type(), v1::Options::BFLOAT16);
  EXPECT_FALSE(seen.options().has_deterministic());
  EXPECT_EQ(seen.engine(), "reference");
  EXPECT_EQ(seen.priority(), -3);

  EXPECT_EQ(result->request_id, "r1");
  ASSERT_EQ(result->outputs.size(), 1u);
  EXPECT_EQ(result->outputs[0].name, "Y");
  EXPECT_THAT(ValuesOf(result->outputs[0]), ElementsAre(0.5, -2));
  EXPECT_EQ(result->engine, "cpu");
  EXPECT_EQ(result->fingerprint, "abc");
  EXPECT_EQ(result->queue_time, std::chrono::nanoseconds(1500));
  EXPECT_EQ(result->compute_time, std::chrono::seconds(2));
  EXPECT_EQ(result->largest_batch, 7);
  EXPECT_THAT(result->warnings, ElementsAre("beware"));
}

TEST(ClientTest, NamesAModelOrAFingerprint) {
  FakeServer server;
  v1::InferRequest seen;
  server.on_infer = [&](const v1::InferRequest& request, v1::InferResponse&) {
    seen = request;
    return FakeStatus{};
  };
  const auto client = Connect(server.address());
  ASSERT_TRUE(client->Infer(ModelRef{"vad", 3}, {}).ok());
  EXPECT_EQ(seen.model().name(), "vad");
  EXPECT_EQ(seen.model().version(), 3);
  ASSERT_TRUE(client->Infer(ModelRef{"vad"}, {}).ok());
  EXPECT_FALSE(seen.model().has_version());
  ASSERT_TRUE(client->Infer(Fingerprint{"beef"}, {}).ok());
  EXPECT_EQ(seen.fingerprint(), "beef");
}

TEST(ClientTest, ErrorsCarryFieldReasonAndAdvice) {
  FakeServer server;
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_nanos(250'000'000);
  server.on_infer = [&](const v1::InferRequest& request, v1::InferResponse&) {
    if (request.model().name() == "full") return FakeStatus{8, "the queue is full", {Pack(retry)}};
    return FakeStatus{3, "X has 40 columns", {FieldDetail("inputs[X].shape", "X has 40 columns")}};
  };
  const auto client = Connect(server.address());
  const absl::Status refused = client->Infer(ModelRef{"vad"}, {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(), "X has 40 columns");
  EXPECT_EQ(FieldOf(refused), "inputs[X].shape");
  EXPECT_EQ(RetryDelayOf(refused), std::nullopt);
  const absl::Status full = client->Infer(ModelRef{"full"}, {}).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RetryDelayOf(full), std::chrono::milliseconds(250));
}

TEST(ClientTest, TellsAServerThatIsNotThereFromOneThatIsUnavailable) {
  std::string address;
  {
    FakeServer gone;
    address = gone.address();
  }
  const absl::Status not_there = Connect(address)->List().status();
  EXPECT_EQ(not_there.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReasonOf(not_there), kCannotConnect);
  EXPECT_THAT(std::string(not_there.message()), HasSubstr(address));

  FakeServer server;
  server.on_list = [](v1::ListModelsResponse&) { return FakeStatus{14, "draining"}; };
  const absl::Status draining = Connect(server.address())->List().status();
  EXPECT_EQ(draining.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(draining.message(), "draining");
  EXPECT_EQ(ReasonOf(draining), std::nullopt);
}

TEST(ClientTest, AsksNoProxyForWhatRunsOnThisMachine) {
  FakeServer server;
  server.on_list = [](v1::ListModelsResponse&) { return FakeStatus{}; };
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  const absl::Status listed = Connect(server.address())->List().status();
  unsetenv("http_proxy");
  EXPECT_TRUE(listed.ok()) << listed;
}

TEST(ClientTest, TakesRepliesAboveFourMebibytesUpToItsOwnLimit) {
  FakeServer server;
  server.on_infer = [](const v1::InferRequest&, v1::InferResponse& reply) {
    *reply.add_outputs() = WireTensor("Y", std::vector<float>(5 << 18, 1));  // 5 MiB
    return FakeStatus{};
  };
  const auto result = Connect(server.address())->Infer(ModelRef{"vad"}, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->outputs[0].bytes.size(), 5u << 20);

  ClientOptions small;
  small.max_receive_bytes = 1 << 20;
  const absl::Status refused = Connect(server.address(), small)->Infer(ModelRef{"vad"}, {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("1048576"));
}

TEST(ClientTest, RefusesReplyTensorsThatDisagreeWithThemselves) {
  FakeServer server;
  v1::Tensor tensor;
  server.on_infer = [&](const v1::InferRequest&, v1::InferResponse& reply) {
    *reply.add_outputs() = tensor;
    return FakeStatus{};
  };
  const auto client = Connect(server.address());
  tensor = WireTensor("Y", {1, 2});
  tensor.set_shape(0, 3);
  EXPECT_EQ(client->Infer(ModelRef{"vad"}, {}).status().code(), absl::StatusCode::kInternal);
  tensor.set_shape(0, int64_t{1} << 62);
  EXPECT_EQ(client->Infer(ModelRef{"vad"}, {}).status().code(), absl::StatusCode::kInternal);
  tensor.set_shape(0, -2);
  EXPECT_EQ(client->Infer(ModelRef{"vad"}, {}).status().code(), absl::StatusCode::kInternal);
  tensor.set_shape(0, 2);
  EXPECT_TRUE(client->Infer(ModelRef{"vad"}, {}).ok());
  tensor.set_data_type(v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_EQ(client->Infer(ModelRef{"vad"}, {}).status().code(), absl::StatusCode::kInternal);
}

TEST(ClientTest, ManagesModels) {
  FakeServer server;
  v1::ModelInfo info;
  info.set_name("vad");
  info.set_version(2);
  info.mutable_operator_()->set_op_type("GRU");
  info.mutable_operator_()->set_version(14);
  (*info.mutable_operator_()->mutable_attributes())["linear_before_reset"].set_i(1);
  info.mutable_options()->set_empty_row_state(v1::INITIAL);
  info.mutable_options()->set_weight_type(v1::Options::INT8);
  info.set_source("upload");
  info.set_weight_bytes(96);
  auto& input = *info.add_inputs();
  input.set_name("X");
  input.set_data_type(v1::DOUBLE);
  input.add_shape("T");
  input.add_shape("4");
  v1::LoadRequest loaded;
  v1::UnloadRequest unloaded;
  v1::GetModelRequest asked;
  server.on_load = [&](const v1::LoadRequest& request, v1::LoadResponse& reply) {
    loaded = request;
    *reply.mutable_model() = info;
    return FakeStatus{};
  };
  server.on_unload = [&](const v1::UnloadRequest& request) {
    unloaded = request;
    return request.model().has_version() ? FakeStatus{}
                                         : FakeStatus{5, "no model vad", {ReasonDetail("MODEL_UNKNOWN")}};
  };
  server.on_get = [&](const v1::GetModelRequest& request, v1::GetModelResponse& reply) {
    asked = request;
    *reply.mutable_model() = info;
    return FakeStatus{};
  };
  server.on_list = [&](v1::ListModelsResponse& reply) {
    *reply.add_models() = info;
    auto& failure = *reply.add_failures();
    failure.set_path("bad/1/model.onnx");
    failure.set_reason("not an ONNX file");
    return FakeStatus{};
  };
  const auto client = Connect(server.address());

  LoadRequest request;
  request.name = "vad";
  request.version = 2;
  InlineModel model;
  model.op.op_type = "GRU";
  model.weights = {MakeTensor("W", {1, 3, 1}, std::vector<double>{1, 2, 3})};
  request.source = model;
  request.engine = "cpu";
  const auto load = client->Load(request);
  ASSERT_TRUE(load.ok()) << load.status();
  EXPECT_EQ(loaded.inline_().operator_().op_type(), "GRU");
  EXPECT_EQ(loaded.inline_().weights(0).data_type(), v1::DOUBLE);
  EXPECT_EQ(loaded.engine(), "cpu");
  EXPECT_EQ(std::get<int64_t>(load->op.attributes.at("linear_before_reset")), 1);
  EXPECT_EQ(load->options.empty_row_state, EmptyRowState::kInitial);
  EXPECT_EQ(load->options.weight_type, WeightType::kInt8);
  EXPECT_EQ(load->options.clip_cell_input, std::nullopt);
  ASSERT_EQ(load->inputs.size(), 1u);
  EXPECT_EQ(load->inputs[0].type, DataType::kDouble);
  EXPECT_THAT(load->inputs[0].shape, ElementsAre("T", "4"));
  request.source = std::vector{std::get<InlineModel>(request.source), std::get<InlineModel>(request.source)};
  ASSERT_TRUE(client->Load(request).ok());
  EXPECT_EQ(loaded.stack().layers(1).weights(0).data_type(), v1::DOUBLE);
  request.source = FromRepository{};
  ASSERT_TRUE(client->Load(request).ok());
  EXPECT_TRUE(loaded.repository());

  EXPECT_TRUE(client->Unload({"vad", 2}).ok());
  EXPECT_EQ(unloaded.model().version(), 2);
  EXPECT_EQ(ReasonOf(client->Unload({"vad"})), "MODEL_UNKNOWN");
  EXPECT_EQ(client->Get(ModelRef{"vad"})->version, 2);
  EXPECT_EQ(asked.model().name(), "vad");
  EXPECT_EQ(client->Get(Fingerprint{"beef"})->source, "upload");
  EXPECT_EQ(asked.fingerprint(), "beef");
  const auto list = client->List();
  ASSERT_EQ(list->models.size(), 1u);
  EXPECT_EQ(list->models[0].weight_bytes, 96);
  EXPECT_EQ(list->failures[0].reason, "not an ONNX file");
}

TEST(ClientTest, AsksForHealth) {
  FakeServer server;
  const auto client = Connect(server.address());
  server.SetServing(true);
  EXPECT_EQ(client->Health().value(), HealthStatus::kServing);
  server.SetServing(false);
  EXPECT_EQ(client->Health().value(), HealthStatus::kNotServing);
  EXPECT_EQ(client->Health("no-such-service").status().code(), absl::StatusCode::kNotFound);
}

TEST(ClientTest, SendsASerializedRequestAsItIs) {
  FakeServer server;
  v1::InferRequest seen;
  server.on_infer = [&](const v1::InferRequest& request, v1::InferResponse&) {
    seen = request;
    return FakeStatus{};
  };
  const auto client = Connect(server.address());
  v1::InferRequest request;
  request.mutable_model()->set_name("vad");
  request.add_inputs()->mutable_float_data()->Add(1.5f);
  ASSERT_TRUE(client->InferSerialized(request.SerializeAsString()).ok());
  EXPECT_EQ(seen.SerializeAsString(), request.SerializeAsString());
  EXPECT_EQ(client->InferSerialized("\x0a").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ClientTest, RefusesUnusableOptions) {
  for (const char* address : {"", "host", "http://h:1"}) EXPECT_FALSE(Client::Create(address).ok()) << address;
  for (const char* address : {"h:1", "[::1]:1", "unix:s", "dns:///h:1"}) EXPECT_TRUE(Client::Create(address).ok());
  ClientOptions no_replies;
  no_replies.max_receive_bytes = 0;
  EXPECT_FALSE(Client::Create("h:1", no_replies).ok());
  ClientOptions negative;
  negative.timeout = std::chrono::milliseconds(-1);
  EXPECT_FALSE(Client::Create("h:1", negative).ok());
}

std::string LongFile() {
  std::string file(2'500'000, '\0');
  for (size_t k = 0; k < file.size(); ++k) file[k] = static_cast<char>(k * 7919 >> 5);
  return file;
}

TEST(Client, SendsAFileInPieces) {
  FakeServer server;
  v1::UploadRequest::Begin begin;
  std::string sent;
  FakeStatus answer;
  server.on_upload = [&](const v1::UploadRequest::Begin& first, const std::string& file, v1::LoadResponse& reply) {
    begin = first;
    sent = file;
    reply.mutable_model()->set_version(3);
    return answer;
  };
  const auto client = Connect(server.address());
  const std::string file = LongFile();
  const LoadRequest request = {.name = "vad", .version = 3, .source = OnnxFile{file}, .engine = "cpu"};
  std::vector<int64_t> told;
  const auto loaded = client->Load(request, [&](int64_t bytes, int64_t of) {
    EXPECT_EQ(of, 2'500'000);
    told.push_back(bytes);
  });
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->version, 3);
  EXPECT_TRUE(sent == file);
  EXPECT_EQ(told, (std::vector<int64_t>{1 << 20, 2 << 20, 2'500'000}));
  EXPECT_EQ(begin.name() + " " + begin.engine(), "vad cpu");
  EXPECT_EQ(begin.version(), 3);
  EXPECT_EQ(begin.file_bytes(), 2'500'000);
  answer = {3, "no model", {FieldDetail("chunk", "no model")}};
  EXPECT_EQ(FieldOf(client->Load(request).status()), "chunk");
}

TEST(Client, ReceivesAFileInPieces) {
  FakeServer server;
  const std::string file = LongFile();
  int64_t file_bytes = 2'500'000;
  FakeStatus answer;
  server.on_download = [&](const v1::DownloadRequest& request, std::vector<v1::DownloadResponse>& replies) {
    EXPECT_EQ(request.model().name(), "vad");
    v1::DownloadResponse::Begin& begin = *replies.emplace_back().mutable_begin();
    begin.mutable_model()->set_version(2);
    begin.set_file_bytes(file_bytes);
    for (size_t at = 0; at < file.size(); at += 900'000) replies.emplace_back().set_chunk(file.substr(at, 900'000));
    return answer;
  };
  const auto client = Connect(server.address());
  std::string got;
  absl::Status written;
  const auto write = [&](std::string_view piece) {
    got += piece;
    return written;
  };
  std::vector<int64_t> told;
  const auto model = client->Download({"vad"}, write, [&](int64_t bytes, int64_t) { told.push_back(bytes); });
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->version, 2);
  EXPECT_TRUE(got == file);
  EXPECT_EQ(told, (std::vector<int64_t>{900'000, 1'800'000, 2'500'000}));

  file_bytes = 2'500'001;
  EXPECT_EQ(client->Download({"vad"}, write).status().code(), absl::StatusCode::kDataLoss);
  answer = {4, "too slow"};
  EXPECT_EQ(client->Download({"vad"}, write).status().code(), absl::StatusCode::kDeadlineExceeded);
  written = absl::InternalError("disk full");
  EXPECT_EQ(client->Download({"vad"}, write).status(), written);
}

}  // namespace
}  // namespace rnnserve::client
