// SPDX-License-Identifier: Apache-2.0
#include "server/models/content_tag.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "server/models/model_store.h"
#include "tests/server/models/model_fixture.h"

namespace rnnserve {
namespace {

std::string TagOf(const ContentTag& tags, const TestOperator& given) {
  const LayerView layer = {given.op, given.inputs};
  return tags.Of(ResolveStack({&layer, 1}).value(), {&layer, 1}).value();
}

TEST(ContentTag, IsEqualForEqualContent) {
  const ContentTag tags;
  TestOperator other = MakeOperator("LSTM");
  std::ranges::reverse(other.inputs);
  other.Add("X", {3, 1, 2}, 0);
  EXPECT_EQ(TagOf(tags, MakeOperator("LSTM")), TagOf(tags, other));
  EXPECT_EQ(TagOf(tags, other).size(), 16u);
}

TEST(ContentTag, SeesEveryElementAndShape) {
  const ContentTag tags;
  std::set<std::string> seen = {TagOf(tags, MakeOperator("LSTM", 0.5F, 3)), TagOf(tags, MakeOperator("GRU", 0.5F, 3)),
                                TagOf(tags, MakeOperator("LSTM", 0.5F, 2))};
  size_t contents = seen.size();
  for (size_t input = 0; input < 3; ++input) {
    for (size_t element = 0; element < MakeOperator("LSTM", 0.5F, 3).storage[input].size(); ++element) {
      TestOperator changed = MakeOperator("LSTM", 0.5F, 3);
      float& value = changed.storage[input][element];
      value = std::nextafter(value, 100.F);
      seen.insert(TagOf(tags, changed));
      ++contents;
    }
  }
  EXPECT_EQ(seen.size(), contents);
}

// No caller can look for collisions without the key, and each process draws its own.
TEST(ContentTag, DependsOnASecret) {
  const ContentTag first, second;
  EXPECT_NE(TagOf(first, MakeOperator("LSTM")), TagOf(second, MakeOperator("LSTM")));
}

TEST(ContentTag, LeadsToTheModelThatIsThere) {
  ModelStore store{{}};
  const TestOperator first = MakeOperator("LSTM"), again = MakeOperator("LSTM"), other = MakeOperator("LSTM", 0.75F);
  const ModelPtr model = store.FindOrCreate(first.op, first.inputs).value();
  EXPECT_EQ(store.FindOrCreate(again.op, again.inputs).value(), model);
  EXPECT_NE(store.FindOrCreate(other.op, other.inputs).value(), model);
  EXPECT_EQ(store.GetByFingerprint(model->fingerprint()).value(), model);
}

}  // namespace
}  // namespace rnnserve
