// How a product's rows are handed out to threads.
#include "model/multiply.h"

#include <gtest/gtest.h>

namespace krafla {
namespace {

TEST(RowRanges, CoverEveryRowOnceInWholeTiles) {
  for (const std::size_t rows : {1u, 16u, 31u, 32u, 100u, 576u, 1536u, 4864u, 49152u, 151936u})
    for (const std::size_t cols : {32u, 576u, 4864u, 18944u})
      for (const std::size_t n : {1u, 3u, 4u, 8u, 256u})
        for (const std::size_t threads : {1u, 2u, 3u, 8u, 200u}) {
          Matrix w;
          w.rows = rows;
          w.cols = cols;
          const RowRanges ranges(w, n, threads);
          std::size_t at = 0;
          for (std::size_t i = 0; i < ranges.count(); ++i) {
            const auto [begin, end] = ranges[i];
            ASSERT_EQ(begin, at);
            ASSERT_EQ(begin % kTileRows, 0u);
            ASSERT_LT(begin, end);
            ASSERT_LE(end - begin, ranges.most());
            at = end;
          }
          ASSERT_EQ(at, rows);
        }
}

TEST(RowRanges, PromptsBeginWithManyRowsAndEndWithFew) {
  Matrix w;
  w.rows = 4864;
  w.cols = 896;
  const RowRanges ranges(w, 256, 2);
  EXPECT_EQ(ranges[0].end, ranges.most());
  const auto [begin, end] = ranges[ranges.count() - 1];
  EXPECT_EQ(end - begin, kTileRows);
  for (std::size_t i = 1; i < ranges.count(); ++i)
    EXPECT_LE(ranges[i].end - ranges[i].begin, ranges[i - 1].end - ranges[i - 1].begin);
}

}  // namespace
}  // namespace krafla
