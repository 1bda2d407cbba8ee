// SPDX-License-Identifier: Apache-2.0
#include "server/api/health/health_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "base/completion.h"

namespace rnnserve {
namespace {

using testing::ElementsAre;

struct Story {
  std::vector<Health> news;
  bool ended = false;
};

CallTask Follow(HealthBoard::Watcher& watcher, Story& story) {
  while (const std::optional<Health> health = co_await watcher.NextChange()) story.news.push_back(*health);
  story.ended = true;
}

TEST(HealthBoard, KnowsWhatWasSet) {
  HealthBoard board;
  EXPECT_EQ(board.Get("a"), Health::kUnknown);
  board.Set("a", true);
  EXPECT_EQ(board.Get("a"), Health::kServing);
  board.Set("a", false);
  EXPECT_EQ(board.Get("a"), Health::kNotServing);
  EXPECT_EQ(board.Get(""), Health::kUnknown);
}

TEST(HealthBoard, RetiredNamesAreForgottenInTurn) {
  HealthBoard board;
  board.Set("kept", false);
  board.Set("back", true);
  board.Retire("back");
  board.Set("watched", true);
  HealthBoard::Watcher watcher(board, "watched");
  Story story;
  Follow(watcher, story);
  board.Retire("watched");
  board.Set("back", true);
  for (size_t k = 1; k < HealthBoard::kMostRetired; ++k) {
    board.Set(std::to_string(k), true);
    board.Retire(std::to_string(k));
  }
  EXPECT_EQ(board.Get("watched"), Health::kNotServing);
  board.Retire("one more");
  EXPECT_EQ(board.Get("watched"), Health::kUnknown);
  EXPECT_EQ(board.Get("1"), Health::kNotServing);
  EXPECT_EQ(board.Get("back"), Health::kServing);
  EXPECT_EQ(board.Get("kept"), Health::kNotServing);
  EXPECT_THAT(story.news, ElementsAre(Health::kServing, Health::kNotServing, Health::kUnknown));
  watcher.Stop();
  EXPECT_TRUE(story.ended);
}

TEST(HealthBoard, NothingServesOnceItLeaves) {
  HealthBoard board;
  board.Set("a", true);
  board.Leave();
  board.Set("a", true);
  board.Set("b", true);
  EXPECT_EQ(board.Get("a"), Health::kNotServing);
  EXPECT_EQ(board.Get("b"), Health::kNotServing);
  EXPECT_EQ(board.Get("c"), Health::kUnknown);
}

TEST(HealthBoard, TellsWatchersTheirOwnChangesOnce) {
  HealthBoard board;
  HealthBoard::Watcher watcher(board, "a");
  Story story;
  Follow(watcher, story);
  board.Set("b", true);
  board.Set("a", true);
  board.Set("a", true);
  board.Set("a", false);
  board.Leave();
  EXPECT_THAT(story.news, ElementsAre(Health::kUnknown, Health::kServing, Health::kNotServing));
  EXPECT_FALSE(story.ended);
  watcher.Stop();
  EXPECT_TRUE(story.ended);
}

TEST(HealthBoard, StoppedBeforeItWaits) {
  HealthBoard board;
  HealthBoard::Watcher watcher(board, "a");
  watcher.Stop();
  Story story;
  Follow(watcher, story);
  EXPECT_TRUE(story.ended);
  EXPECT_TRUE(story.news.empty());
}

TEST(HealthBoard, TellsWatchersOfOneNameAllOfThem) {
  HealthBoard board;
  std::vector<Story> stories(3);
  std::vector<std::unique_ptr<HealthBoard::Watcher>> watchers;
  for (Story& story : stories) {
    watchers.push_back(std::make_unique<HealthBoard::Watcher>(board, "a"));
    Follow(*watchers.back(), story);
  }
  watchers[1]->Stop();
  watchers[1].reset();
  board.Set("a", true);
  EXPECT_THAT(stories[0].news, ElementsAre(Health::kUnknown, Health::kServing));
  EXPECT_THAT(stories[1].news, ElementsAre(Health::kUnknown));
  EXPECT_THAT(stories[2].news, ElementsAre(Health::kUnknown, Health::kServing));
  for (size_t k : {size_t{0}, size_t{2}}) watchers[k]->Stop();
}

TEST(HealthBoard, TheLastNewsAreTheTruth) {
  HealthBoard board;
  HealthBoard::Watcher watcher(board, "a");
  Story story;
  Follow(watcher, story);
  {
    std::thread up([&] {
      for (int k = 0; k < 1000; ++k) board.Set("a", true);
    });
    std::thread down([&] {
      for (int k = 0; k < 1000; ++k) board.Set("a", false);
    });
    up.join();
    down.join();
  }
  EXPECT_EQ(story.news.back(), board.Get("a"));
  watcher.Stop();
  EXPECT_TRUE(story.ended);
}

}  // namespace
}  // namespace rnnserve
