// The engine's parts: the prefix cache, stop strings, guesses, the mailbox.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "../engine/engine_test_tools.h"
#include "engine/drafter.h"
#include "engine/prefix_cache.h"
#include "engine/stop_strings.h"

namespace krafla {
namespace {

using Ids = std::vector<std::int32_t>;

class Cache : public testing::TestWithParam<std::string> {
 protected:
  /// A sequence with these tokens read.
  Sequence read(const Ids& ids) {
    Sequence sequence(pool_);
    Batch batch;
    const Feed feed{&sequence, ids, Wants::none};
    forward(model_, context_, batch, {&feed, 1});
    return sequence;
  }
  Context context_{choose_kernels(nullptr), 1};
  Model model_{test_model(GetParam()), context_.threads};
  PagePool pool_{KvLayout(model_.config(), KvType::f16)};
  bool keeps_past_ = pool_.layout().keeps_past();
};

TEST_P(Cache, FindsTheLongestBeginning) {
  PrefixCache cache(pool_, PagePool::kNoLimit);
  const Ids a = {1, 2, 0, 1, 1}, b = {1, 2, 0, 2, 2, 2, 0}, c = {0, 1};
  for (const Ids* ids : {&a, &b, &c}) cache.insert(*ids, read(*ids));
  EXPECT_EQ(cache.find(a, 5).length(), 5u);
  EXPECT_EQ(cache.find({{1, 2, 0, 1, 1, 2, 2}}, 7).length(), 5u);
  EXPECT_EQ(cache.find(b, 7).length(), 7u);
  EXPECT_EQ(cache.find({{2, 2}}, 2).length(), 0u);
  EXPECT_EQ(cache.find({{1, 2, 0, 0}}, 4).length(), keeps_past_ ? 3u : 0u);
  EXPECT_EQ(cache.find(a, 4).length(), keeps_past_ ? 4u : 0u);
  cache.insert(std::span(a).first(3), read({1, 2, 0}));  // needless where all of the past is kept
  EXPECT_EQ(cache.size(), keeps_past_ ? 3u : 4u);
  EXPECT_EQ(cache.find(a, 4).length(), keeps_past_ ? 4u : 3u);
  EXPECT_EQ(cache.find({{1, 2, 0, 0}}, 4).length(), 3u);
}

TEST_P(Cache, CountsSharedPagesOnceAndForgetsTheLeastRecentlyUsed) {
  Ids ids(90, 1), longer(90, 1);
  longer.resize(100, 0);
  Sequence sequence = read(ids);
  PrefixCache cache(pool_, PagePool::kNoLimit);
  cache.insert(ids, sequence);
  EXPECT_EQ(cache.bytes(), sequence.bytes());
  {
    Batch batch;
    const Feed feed{&sequence, std::span(longer).subspan(90), Wants::none};
    forward(model_, context_, batch, {&feed, 1});
    cache.insert(longer, sequence);
  }
  cache.insert({{0, 0, 1}}, read({0, 0, 1}));
  sequence = Sequence(pool_);
  EXPECT_EQ(cache.bytes(), pool_.in_use());
  cache.find(longer, 99);
  while (cache.evict()) EXPECT_EQ(cache.bytes(), pool_.in_use());
  EXPECT_EQ(cache.bytes(), 0u);
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(pool_.in_use(), 0u);
  EXPECT_EQ(cache.find(longer, 99).length(), 0u);

  PrefixCache small(pool_, pool_.layout().page_bytes(KvLayout::full) * 2 +
                               pool_.layout().page_bytes(KvLayout::windowed) * 2 +
                               pool_.layout().page_bytes(KvLayout::linear));
  for (std::int32_t i = 0; i < 3; ++i) {
    Ids text(80, i);
    small.insert(text, read(text));
    EXPECT_EQ(small.size(), 1u);
    EXPECT_EQ(small.find(text, 80).length(), 80u);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Cache, testing::Values("tiny-q4.mlb", "linear-q8.mlb", "linear-only-q8.mlb"),
                         [](const auto& file) { return test_name(file.param); });

TEST(StopStrings, AreCutHoweverTheTextIsCut) {
  const struct {
    std::vector<std::string> stops;
    std::string text, want;
    bool stopped;
  } cases[] = {
      {{"ab"}, "xxaabyy", "xxa", true},  {{"ab"}, "xxa", "xxa", false},         {{"aab"}, "aaab", "a", true},
      {{"abc", "b"}, "aab", "aa", true}, {{"abcd", "bc"}, "xabcd", "xa", true},  // "bc" is complete first
      {{"\n\n"}, "a\n\nb", "a", true},   {{""}, "abc", "abc", false},           {{"a"}, "a", "", true},
      {{"þþ"}, "aþbþþ", "aþb", true}};
  for (const auto& c : cases)
    for (std::size_t first = 0; first <= c.text.size(); ++first)
      for (std::size_t second = first; second <= c.text.size(); ++second) {
        StopStrings stops(c.stops);
        std::string out = stops.feed(std::string_view(c.text).substr(0, first));
        out += stops.feed(std::string_view(c.text).substr(first, second - first));
        if (c.stops.size() == 1 || second - first <= 1) {
          for (std::size_t i = second; i < c.text.size(); ++i)
            out += stops.feed(std::string_view(c.text).substr(i, 1));
        } else {
          out += stops.feed(std::string_view(c.text).substr(second));
        }
        out += stops.finish();
        EXPECT_EQ(out, c.want) << c.text << " " << first << " " << second;
        EXPECT_EQ(stops.stopped(), c.stopped);
      }
}

TEST(LookUpDrafts, WhatFollowedTheLastTime) {
  EXPECT_EQ(look_up_drafts(Ids{1, 2, 3, 4, 5, 1, 2, 3}, 10), (Ids{4, 5, 1, 2, 3}));
  EXPECT_EQ(look_up_drafts(Ids{1, 2, 3, 4, 5, 1, 2, 3}, 2), (Ids{4, 5}));
  EXPECT_EQ(look_up_drafts(Ids{1, 2, 3, 9, 1, 2, 3, 8, 1, 2, 3}, 1), Ids{8});  // the latest
  EXPECT_EQ(look_up_drafts(Ids{7, 2, 3, 9, 1, 2, 3}, 1), Ids{9});              // two tokens alike
  EXPECT_TRUE(look_up_drafts(Ids{1, 2, 3, 4}, 4).empty());
  EXPECT_TRUE(look_up_drafts(Ids{1}, 4).empty());
  EXPECT_EQ(look_up_drafts(Ids{1, 1, 1, 1}, 4), Ids{1});
}

TEST(Mailbox, ASlowReaderFindsTokensJoined) {
  Mailbox mailbox;
  int notified = 0;
  mailbox.notify = [&] { ++notified; };
  for (int i = 0; i < 3; ++i) {
    Event event(Event::Kind::tokens);
    event.ids = {i};
    event.text = std::to_string(i);
    mailbox.put(event);
  }
  mailbox.put(Event(Event::Kind::tokens, 1));
  mailbox.put(Event(Event::Kind::done));
  const auto first = mailbox.take(std::chrono::milliseconds(0));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->ids, (Ids{0, 1, 2}));
  EXPECT_EQ(first->text, "012");
  EXPECT_EQ(mailbox.take(std::chrono::milliseconds(0))->choice, 1u);
  EXPECT_EQ(mailbox.take(std::chrono::milliseconds(0))->kind, Event::Kind::done);
  EXPECT_FALSE(mailbox.take(std::chrono::milliseconds(1)));
  EXPECT_EQ(notified, 5);
}

}  // namespace
}  // namespace krafla
