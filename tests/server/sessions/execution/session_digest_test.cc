// SPDX-License-Identifier: Apache-2.0
// Digests lie in records that another server has written, perhaps an older one: they must stay what they are.
#include "server/sessions/execution/session_digest.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace rnnserve {
namespace {

// Of a chunk whose X has so many bytes.
std::string DigestOfChunk(size_t bytes) {
  std::vector<std::byte> x(bytes);
  for (size_t k = 0; k < bytes; ++k) x[k] = static_cast<std::byte>(7 * k + 3);
  RunPlan plan;
  plan.x = {DataType::kFloat, {static_cast<int64_t>(bytes)}, x};
  plan.lengths = {1};
  OutputPlan y;
  y.name = "Y";
  plan.outputs = OutputPlans({y});
  const Digest digest = DigestOf(OperationKind(ChunkOp{{{"X", plan.x}}, {}}), &plan);
  return absl::StrCat(absl::Hex(digest.high, absl::kZeroPad16), absl::Hex(digest.low, absl::kZeroPad16));
}

struct Known {
  size_t bytes;
  const char* digest;
};

// As 0.1.0 made them on 2026-11-28 (fd18afa6). The lengths are about those at which xxhash, and what collects parts for
// it, go another way.
constexpr Known kKnown[] = {
    {0, "525a9f9275932fa0be5e0af49c442b49"},    {16, "c365dce6dbf8f75e15f69962fa277d68"},
    {100, "a9b660342cd91a2e039cbbdf5423f659"},  {190, "2911c88604325fa5b7b779a877721821"},
    {240, "a1b99d08886db95610e407d160229282"},  {512, "7738fec2447dec87750b08d15bb9f3ec"},
    {955, "e680b861beae748b401fbac216f8c1a9"},  {963, "941c15e28bf8a8d53272723d07424235"},
    {964, "a02414622dea6e3ea90036ee32526a87"},  {987, "56b4deb91af75b67860dc10c316cb550"},
    {988, "bba5da39a1e42e5770ac626103f5c940"},  {989, "cb06be98e8f06fa111be397a20e3f455"},
    {1023, "365e70f65e7532391bd3b7dbe03eb149"}, {1024, "2a7597a77d870218c68de2df6e491534"},
    {1025, "fd8a60ced811ae4225b27876b6569944"}, {4096, "593c3cf319de07149d4731d86e2ff066"},
};

TEST(SessionDigest, StaysWhatItIs) {
  for (const Known& known : kKnown) EXPECT_EQ(DigestOfChunk(known.bytes), known.digest) << known.bytes << " bytes";
}

}  // namespace
}  // namespace rnnserve
