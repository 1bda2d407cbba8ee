// SPDX-License-Identifier: Apache-2.0
// The corpus of kserve_fuzz as an ordinary test: sound requests as they are, and changed. With RNNSERVE_FUZZ_CORPUS
// set, writes the corpus into that folder instead.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "inference/grpc_service.pb.h"
#include "tests/fuzz/changed_bytes.h"
#include "tests/fuzz/kserve_fuzz.h"

namespace rnnserve {
namespace {

constexpr int kChangesEach = 4000;

inference::ModelInferRequest Infer(const std::string& type, int64_t bytes) {
  inference::ModelInferRequest request;
  request.set_model_name("m");
  request.set_model_version("1");
  request.set_id("r");
  auto& x = *request.add_inputs();
  x.set_name("X");
  x.set_datatype(type);
  for (const int64_t axis : {2, 1, 1}) x.add_shape(axis);
  request.add_raw_input_contents(std::string(static_cast<size_t>(2 * bytes), '\1'));
  request.add_outputs()->set_name("Y");
  return request;
}

std::vector<std::string> Corpus() {
  std::vector<std::string> corpus;
  for (const auto& [type, bytes] : std::vector<std::pair<std::string, int64_t>>{
           {"FP32", 4}, {"FP64", 8}, {"FP16", 2}, {"BF16", 2}, {"INT32", 4}, {"INT64", 8}}) {
    corpus.push_back(Infer(type, bytes).SerializeAsString());
  }
  inference::ModelInferRequest typed = Infer("FP32", 4);
  typed.clear_raw_input_contents();
  for (const float value : {1.F, 2.F}) typed.mutable_inputs(0)->mutable_contents()->add_fp32_contents(value);
  corpus.push_back(typed.SerializeAsString());
  inference::ModelInferRequest step = Infer("FP32", 4);
  auto& parameters = *step.mutable_parameters();
  parameters["sequence_id"].set_int64_param(7);
  parameters["sequence_start"].set_bool_param(true);
  parameters["sequence_end"].set_bool_param(true);
  parameters["priority"].set_uint64_param(3);
  parameters["timeout"].set_int64_param(1000);
  corpus.push_back(step.SerializeAsString());
  inference::RepositoryModelLoadRequest load;
  load.set_model_name("m");
  (*load.mutable_parameters())["file:1/model.onnx"].set_bytes_param("onnx");
  (*load.mutable_parameters())["config"].set_string_param("{}");
  corpus.push_back(load.SerializeAsString());
  return corpus;
}

TEST(KserveCorpus, AsItIs) {
  const std::vector<std::string> corpus = Corpus();
  const char* const folder = std::getenv("RNNSERVE_FUZZ_CORPUS");
  if (folder != nullptr) std::filesystem::create_directories(folder);
  for (size_t k = 0; k < corpus.size(); ++k) {
    if (folder != nullptr) {
      std::ofstream(std::filesystem::path(folder) / std::to_string(k), std::ios::binary) << corpus[k];
    } else {
      FuzzKserve(corpus[k]);
    }
  }
}

TEST(KserveCorpus, Changed) {
  const std::vector<std::string> corpus = Corpus();
  std::mt19937 random(1);
  for (const std::string& sound : corpus) {
    for (int k = 0; k < kChangesEach; ++k) FuzzKserve(ChangedBytes(sound, corpus[random() % corpus.size()], random));
  }
}

}  // namespace
}  // namespace rnnserve
