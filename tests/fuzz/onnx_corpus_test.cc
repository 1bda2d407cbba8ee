// SPDX-License-Identifier: Apache-2.0
// The corpus of onnx_file_fuzz as an ordinary test: each file as it is, and small ones with bytes changed, cut out and
// put in from others. With RNNSERVE_FUZZ_CORPUS set, writes the corpus into that folder instead.
#include "tests/fuzz/onnx_corpus.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

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

std::string Changed(std::string bytes, const std::string& other, std::mt19937& random) {
  const auto below = [&](size_t end) { return end == 0 ? 0 : random() % end; };
  for (size_t changes = 1 + below(4); changes > 0 && !bytes.empty(); --changes) {
    const size_t at = below(bytes.size());
    switch (below(5)) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 2:
        bytes.erase(at, 1 + below(16));
        break;
      case 3:
        bytes.insert(at, bytes, below(bytes.size()), 1 + below(64));
        break;
      default:
        bytes.insert(at, other, below(other.size()), 1 + below(64));
    }
  }
  return bytes;
}

TEST(OnnxCorpus, Changed) {
  std::vector<CorpusFile> small = OnnxCorpus();
  std::erase_if(small, [](const CorpusFile& file) { return file.bytes.size() > kSmall; });
  std::mt19937 random(1);
  for (const CorpusFile& file : small) {
    for (int k = 0; k < kChangesEach; ++k)
      FuzzOnnxFile(Changed(file.bytes, small[random() % small.size()].bytes, random));
  }
}

}  // namespace
}  // namespace rnnserve
