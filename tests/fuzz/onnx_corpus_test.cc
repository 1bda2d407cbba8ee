// SPDX-License-Identifier: Apache-2.0
// The corpus of onnx_file_fuzz as an ordinary test: each file as it is, and small ones with bytes changed, cut out and
// put in from others. With RNNSERVE_FUZZ_CORPUS set, writes the corpus into that folder instead.
#include "tests/fuzz/onnx_corpus.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/fuzz/changed_bytes.h"
#include "tests/fuzz/onnx_file_fuzz.h"

namespace rnnserve {
namespace {

constexpr size_t kSmall = 4096;
constexpr int kChangesEach = 60;

TEST(OnnxCorpus, AsItIs) {
  const std::vector<CorpusFile> corpus = OnnxCorpus();
  if (const char* folder = std::getenv("RNNSERVE_FUZZ_CORPUS")) {
    std::filesystem::create_directories(folder);
    for (size_t k = 0; k < corpus.size(); ++k) {
      std::ofstream(std::filesystem::path(folder) / std::to_string(k), std::ios::binary) << corpus[k].bytes;
    }
    return;
  }
  EXPECT_GT(corpus.size(), 40U);
  for (const CorpusFile& file : corpus) FuzzOnnxFile(file.bytes);
}

TEST(OnnxCorpus, Changed) {
  std::vector<CorpusFile> small = OnnxCorpus();
  std::erase_if(small, [](const CorpusFile& file) { return file.bytes.size() > kSmall; });
  std::mt19937 random(1);
  for (const CorpusFile& file : small) {
    for (int k = 0; k < kChangesEach; ++k)
      FuzzOnnxFile(ChangedBytes(file.bytes, small[random() % small.size()].bytes, random));
  }
}

}  // namespace
}  // namespace rnnserve
