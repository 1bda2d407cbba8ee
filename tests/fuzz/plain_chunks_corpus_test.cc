// SPDX-License-Identifier: Apache-2.0
// The corpus of plain_chunks_fuzz as an ordinary test: plain messages and others as they are, and changed. With
// RNNSERVE_FUZZ_CORPUS set, writes the corpus into that folder instead.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "rnnserve/v1/sessions.pb.h"
#include "tests/fuzz/changed_bytes.h"
#include "tests/fuzz/plain_chunks_fuzz.h"

namespace rnnserve {
namespace {

constexpr int kChangesEach = 10000;

v1::StreamRequest Plain(int operations) {
  v1::StreamRequest request;
  for (int k = 0; k < operations; ++k) {
    v1::Operation& operation = *request.add_operations();
    operation.set_session("rs1-0123456789abcdef0123456789abcdef");
    operation.set_number(static_cast<uint64_t>(300 * k + 1));
    v1::Tensor& x = *operation.mutable_chunk()->add_inputs();
    x.set_name("X");
    x.set_data_type(v1::FLOAT);
    for (const int64_t axis : {k + 1, 1, 2}) x.add_shape(axis);
    x.set_raw(std::string(static_cast<size_t>(8 * (k + 1)), '\1'));
  }
  return request;
}

std::vector<std::string> PlainMessages() {
  v1::StreamRequest full = Plain(2);
  full.mutable_operations(0)->set_request_id("r");
  full.mutable_operations(0)->set_priority(7);
  full.mutable_operations(0)->set_owner_epoch(1);
  full.mutable_operations(1)->clear_number();
  full.mutable_operations(1)->mutable_chunk()->mutable_inputs(0)->set_data_type(v1::DOUBLE);
  full.mutable_operations(1)->mutable_chunk()->mutable_inputs(0)->set_shape(2, 1);
  return {"", Plain(1).SerializeAsString(), Plain(20).SerializeAsString(), full.SerializeAsString()};
}

// What the generated classes have to read.
std::vector<std::string> OtherMessages() {
  std::vector<std::string> messages;
  const auto with = [&](auto change) {
    v1::StreamRequest request = Plain(2);
    change(*request.mutable_operations(1));
    messages.push_back(request.SerializeAsString());
  };
  with([](v1::Operation& operation) { operation.mutable_timeout()->set_seconds(1); });
  with([](v1::Operation& operation) { operation.set_priority(-1); });
  with([](v1::Operation& operation) { operation.set_priority(101); });
  with([](v1::Operation& operation) { operation.set_request_id(std::string(129, 'r')); });
  with([](v1::Operation& operation) { operation.set_session("\xC3\xA4"); });
  with([](v1::Operation& operation) { operation.mutable_chunk()->add_outputs("Y"); });
  with([](v1::Operation& operation) { operation.mutable_chunk()->set_override_outputs(true); });
  with([](v1::Operation& operation) { operation.mutable_chunk()->add_inputs()->set_name("sequence_lens"); });
  with([](v1::Operation& operation) { operation.mutable_chunk()->mutable_inputs(0)->add_float_data(1); });
  with([](v1::Operation& operation) { operation.mutable_chunk()->mutable_inputs(0)->clear_raw(); });
  with([](v1::Operation& operation) { operation.mutable_chunk()->mutable_inputs(0)->clear_name(); });
  with([](v1::Operation& operation) { operation.mutable_chunk()->mutable_inputs(0)->set_shape(0, 3); });
  with([](v1::Operation& operation) { operation.mutable_chunk()->mutable_inputs(0)->set_shape(0, -1); });
  with([](v1::Operation& operation) { operation.mutable_chunk()->mutable_inputs(0)->set_data_type(v1::DataType(2)); });
  with([](v1::Operation& operation) { operation.mutable_reset(); });
  with([](v1::Operation& operation) { operation.clear_kind(); });
  return messages;
}

std::vector<std::string> Corpus() {
  std::vector<std::string> corpus = PlainMessages();
  for (std::string& other : OtherMessages()) corpus.push_back(std::move(other));
  return corpus;
}

TEST(PlainChunksCorpus, AsItIs) {
  if (const char* const folder = std::getenv("RNNSERVE_FUZZ_CORPUS")) {
    std::filesystem::create_directories(folder);
    const std::vector<std::string> corpus = Corpus();
    for (size_t k = 0; k < corpus.size(); ++k) {
      std::ofstream(std::filesystem::path(folder) / std::to_string(k), std::ios::binary) << corpus[k];
    }
    return;
  }
  for (const std::string& message : PlainMessages()) EXPECT_TRUE(FuzzPlainChunks(message));
  for (const std::string& message : OtherMessages()) EXPECT_FALSE(FuzzPlainChunks(message));
}

// Bytes behind one another that protobuf takes and a reader may get wrong.
TEST(PlainChunksCorpus, UnusualBytes) {
  const std::string plain = Plain(1).SerializeAsString();
  v1::Operation again = Plain(1).operations(0);
  EXPECT_FALSE(FuzzPlainChunks("\x0A" + std::string(1, static_cast<char>(2 * again.ByteSizeLong())) +
                               again.SerializeAsString() + again.SerializeAsString()));  // fields that come twice
  for (size_t size = 1; size < plain.size(); ++size) {
    EXPECT_FALSE(FuzzPlainChunks(std::string_view(plain).substr(0, size))) << size;
  }
  EXPECT_FALSE(FuzzPlainChunks(plain + std::string("\x8A\x80\x80\x80\x80\x00\x00", 7)));  // a long tag
  EXPECT_FALSE(FuzzPlainChunks(plain + std::string("\x0A\x80\x80\x80\x80\x80\x00", 7)));  // a long size
}

TEST(PlainChunksCorpus, Changed) {
  const std::vector<std::string> corpus = Corpus();
  std::mt19937 random(1);
  int plain = 0;
  for (const std::string& sound : corpus) {
    for (int k = 0; k < kChangesEach; ++k) {
      plain += FuzzPlainChunks(ChangedBytes(sound, corpus[random() % corpus.size()], random)) ? 1 : 0;
    }
  }
  EXPECT_GT(plain, kChangesEach / 10);
}

}  // namespace
}  // namespace rnnserve
