#include "eval/windows.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace krafla {
namespace {

TEST(Windows, ChunksScoreTheirLaterHalf) {
  const Windows w = cut_text(1030, 512, 0, 0);
  EXPECT_EQ(w.count, 2u);
  EXPECT_EQ(w.n_ids, 1024u);
  EXPECT_EQ(w.rows(), 2u * 255);  // llama.cpp: n_ctx - n_ctx / 2 - 1 a chunk
  EXPECT_EQ(w[1].begin, 512u);
  EXPECT_EQ(w[1].first, 256u);
  EXPECT_EQ(w[1].rows(), 255u);
  EXPECT_EQ(cut_text(1030, 512, 0, 1).count, 1u);
}

/// By brute force: which tokens are scored how often, and what stands before them.
TEST(Windows, SlidingScoresEveryTokenOnceWithEnoughBeforeIt) {
  for (std::size_t ctx : {4u, 5u, 9u})
    for (std::size_t stride = 1; stride < ctx; ++stride)
      for (std::size_t n = 2; n < 40; ++n) {
        const Windows w = cut_text(n, ctx, stride, 0);
        std::multiset<std::size_t> scored;
        std::size_t rows = 0;
        for (std::size_t i = 0; i < w.count; ++i) {
          rows += w[i].rows();
          ASSERT_GT(w[i].rows(), 0u);
          ASSERT_LE(w[i].count, ctx);
          for (std::size_t p = w[i].first; p + 1 < w[i].count; ++p) {
            scored.insert(w[i].begin + p + 1);
            ASSERT_GE(p + 1, std::min(w[i].begin + p + 1, ctx - stride));
          }
        }
        ASSERT_EQ(scored.size(), n - 1);
        ASSERT_EQ(std::set<std::size_t>(scored.begin(), scored.end()).size(), n - 1);
        ASSERT_EQ(*scored.begin(), 1u);
        ASSERT_EQ(w.rows(), rows);
        ASSERT_TRUE(covers(w));
      }
}

/// covers() is what cut_text makes, and nothing else.
TEST(Windows, CoversExactlyWhatCuttingGives) {
  for (std::size_t ctx : {4u, 6u})
    for (std::size_t stride = 0; stride < ctx; ++stride)
      for (std::size_t count = 1; count < 6; ++count)
        for (std::size_t n = 0; n < 40; ++n) {
          bool made = false;
          for (std::size_t text = 2; text < 60 && !made; ++text)
            if (stride != 0 || text >= 2 * ctx)
              made = cut_text(text, ctx, stride, count) == Windows{ctx, stride, count, n};
          ASSERT_EQ(covers({ctx, stride, count, n}), made)
              << ctx << " " << stride << " " << count << " " << n;
        }
}

TEST(Windows, BosTakesTheFirstPlace) {
  const std::int32_t text[] = {10, 11, 12, 13, 14, 15};
  std::vector<std::int32_t> ids;
  window_ids(text, {2, 3, 0}, -1, ids);
  EXPECT_EQ(ids, (std::vector<std::int32_t>{12, 13, 14}));
  window_ids(text, {2, 3, 0}, 0, ids);
  EXPECT_EQ(ids, (std::vector<std::int32_t>{0, 13, 14}));
}

TEST(Windows, WhatCannotBeCutIsRefused) {
  const auto status = [](std::size_t n, std::size_t ctx, std::size_t stride) {
    try {
      cut_text(n, ctx, stride, 0);
    } catch (const Error& e) {
      return e.status();
    }
    return ML_OK;
  };
  EXPECT_EQ(status(1023, 512, 0), ML_E_ARG);
  EXPECT_EQ(status(1024, 512, 0), ML_OK);
  EXPECT_EQ(status(100, 3, 0), ML_E_ARG);
  EXPECT_EQ(status(100, 8, 8), ML_E_ARG);
  EXPECT_EQ(status(1, 8, 4), ML_E_ARG);
  EXPECT_EQ(status(2, 8, 4), ML_OK);
}

}  // namespace
}  // namespace krafla
