// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/outbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace rnnserve {
namespace {

using testing::Each;
using testing::Le;

std::vector<std::string> SlicesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::vector<std::string> texts;
  for (const grpc::Slice& slice : slices) texts.emplace_back(slice.begin(), slice.end());
  return texts;
}

std::span<const uint8_t> BytesOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(Outbox, CopiesOfSmallPartsLeaveAsOneSlice) {
  Outbox outbox;
  for (const char* part : {"a", "bc", "", "def"}) outbox.Copy(BytesOf(part), {});
  const Outbox::Message message = outbox.Take(100);
  EXPECT_THAT(SlicesOf(message.bytes), testing::ElementsAre("abcdef"));
  EXPECT_EQ(message.size, 6);
  EXPECT_TRUE(outbox.empty());
}

TEST(Outbox, PartsKeepTheirOrder) {
  Outbox outbox;
  std::string expected;
  for (int k = 0; k < 200; ++k) {
    const std::string part(static_cast<size_t>(k * 37 % 1500), static_cast<char>('a' + k % 26));
    expected += part;
    if (k % 5 == 0) {
      outbox.Add(grpc::Slice(part), {});
    } else {
      outbox.Copy(BytesOf(part), {});
    }
  }
  std::string came;
  std::vector<int64_t> sizes;
  while (!outbox.empty()) {
    const Outbox::Message message = outbox.Take(8192);
    sizes.push_back(message.size);
    for (const std::string& slice : SlicesOf(message.bytes)) came += slice;
  }
  EXPECT_EQ(came, expected);
  EXPECT_THAT(sizes, Each(Le(8192)));
}

TEST(Outbox, APartAboveTheBoundLeavesAlone) {
  Outbox outbox;
  outbox.Add(grpc::Slice("aa"), {});
  outbox.Add(grpc::Slice("b"), {});
  EXPECT_THAT(SlicesOf(outbox.Take(0).bytes), testing::ElementsAre("aa"));
  EXPECT_THAT(SlicesOf(outbox.Take(0).bytes), testing::ElementsAre("b"));
}

TEST(Outbox, SharesAreHeldUntilTheirMessageHasLeft) {
  ByteBudget budget(1000);
  Outbox outbox;
  for (int k = 0; k < 5; ++k) outbox.Copy(BytesOf("part"), budget.Take(7, 100));
  outbox.Copy(BytesOf("part"), budget.Take(8, 100));
  EXPECT_EQ(budget.used(), 600);
  {
    const Outbox::Message message = outbox.Take(100);
    EXPECT_EQ(message.held.size(), 2u);  // one a caller
    EXPECT_EQ(budget.used(), 600);
  }
  EXPECT_EQ(budget.used(), 0);
  EXPECT_EQ(budget.held(7), 0);
}

}  // namespace
}  // namespace rnnserve
