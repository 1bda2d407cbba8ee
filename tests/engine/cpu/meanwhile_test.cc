// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/meanwhile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace rnnserve::cpu {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class MeanwhileTest : public testing::Test {
 protected:
  // How many pieces are done after each of so many passes.
  static std::vector<size_t> Pass(Meanwhile& meanwhile, const std::vector<size_t>& done, size_t passes) {
    std::vector<size_t> counts;
    for (size_t k = 0; k < passes; ++k) {
      meanwhile.Pass();
      counts.push_back(done.size());
    }
    return counts;
  }

  std::vector<size_t> done_;
  const std::function<void(size_t)> note_ = [this](size_t piece) { done_.push_back(piece); };
};

TEST_F(MeanwhileTest, SpreadsPiecesOverPasses) {
  Meanwhile meanwhile(3, 1, note_);
  meanwhile.Expect(6);
  EXPECT_THAT(Pass(meanwhile, done_, 6), ElementsAre(0, 1, 1, 2, 2, 3));
  meanwhile.Finish();
  EXPECT_THAT(done_, ElementsAre(0, 1, 2));
}

TEST_F(MeanwhileTest, SeveralPiecesAPass) {
  Meanwhile meanwhile(5, 1, note_);
  meanwhile.Expect(2);
  EXPECT_THAT(Pass(meanwhile, done_, 2), ElementsAre(2, 5));
}

TEST_F(MeanwhileTest, SharesPiecesAmongProducts) {
  Meanwhile meanwhile(6, 2, note_);
  meanwhile.Expect(3);
  EXPECT_THAT(Pass(meanwhile, done_, 3), ElementsAre(1, 2, 3));
  meanwhile.Expect(1);
  EXPECT_THAT(Pass(meanwhile, done_, 1), ElementsAre(6));
}

TEST_F(MeanwhileTest, RunsEachPieceOnceHoweverManyPasses) {
  Meanwhile meanwhile(2, 1, note_);
  meanwhile.Expect(1);
  EXPECT_THAT(Pass(meanwhile, done_, 3), ElementsAre(2, 2, 2));
  meanwhile.Finish();
  EXPECT_THAT(done_, ElementsAre(0, 1));
}

TEST_F(MeanwhileTest, FinishesWhatNoPassHasDone) {
  Meanwhile meanwhile(3, 2, note_);
  meanwhile.Expect(4);
  EXPECT_THAT(Pass(meanwhile, done_, 3), ElementsAre(0, 0, 1));
  meanwhile.Finish();
  EXPECT_THAT(done_, ElementsAre(0, 1, 2));
}

TEST_F(MeanwhileTest, HasNothingToDo) {
  Meanwhile meanwhile(0, 1, note_);
  meanwhile.Expect(1);
  meanwhile.Pass();
  meanwhile.Finish();
  EXPECT_THAT(done_, IsEmpty());
}

}  // namespace
}  // namespace rnnserve::cpu
