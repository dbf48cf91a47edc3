// The figures' arithmetic on numbers worked out by hand; tests/python/test_eval.py holds whole runs against
// numpy.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "eval/perplexity.h"
#include "eval/row_score.h"

namespace krafla {
namespace {

TEST(RowScore, UniformRows) {
  const std::vector<float> row(37, -3.5f);
  const LogSoftmax log(row);
  EXPECT_NEAR(log(row[5]), -std::log(37.0), 1e-15);
  EXPECT_EQ(log.top, 0u);
  EXPECT_EQ(divergence(row, log, row, log), 0);
}

TEST(RowScore, TwoTokens) {
  const float p[] = {0, 0}, q[] = {std::log(3.0f), 0};  // 1/2, 1/2 and 3/4, 1/4
  const LogSoftmax log_p(p), log_q(q);
  EXPECT_NEAR(log_q(q[1]), std::log(0.25), 1e-7);  // log 3 is rounded to float
  EXPECT_NEAR(divergence(p, log_p, q, log_q), std::log(2 / std::sqrt(3.0)), 1e-7);
}

/// A constant added to a row changes nothing but roundings, and logits far apart neither overflow nor make
/// NaN.
TEST(RowScore, LargeLogits) {
  const float p[] = {3e38f, -3e38f}, q[] = {-3e38f, 3e38f};
  const LogSoftmax log_p(p), log_q(q);
  EXPECT_EQ(log_p(p[0]), 0);
  EXPECT_DOUBLE_EQ(log_p(p[1]), 2 * static_cast<double>(p[1]));
  EXPECT_DOUBLE_EQ(divergence(p, log_p, q, log_q), 2 * static_cast<double>(p[0]));
}

TEST(RowScore, NanAndInfinityAreSeenAnywhere) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), INFINITY, -INFINITY})
    for (std::size_t i = 0; i < 9; ++i) {
      std::vector<float> row(9, 1.0f);
      row[i] = bad;
      EXPECT_FALSE(LogSoftmax(row).finite) << bad << " " << i;
    }
}

TEST(Statistics, MeanAndStandardError) {
  const double values[] = {1, 2, 3, 6};  // mean 3, Σ(x - 3)² = 14
  const Estimate e = mean_of(values);
  EXPECT_EQ(e.value, 3);
  EXPECT_DOUBLE_EQ(e.error, std::sqrt(14.0 / 4 / 3));
  EXPECT_TRUE(std::isnan(mean_of(std::span(values).first(1)).error));
  EXPECT_DOUBLE_EQ(exp_of({0, 0.5}).error, 0.5);
}

TEST(Statistics, QuantilesAreLinearBetweenNeighbours) {
  const double values[] = {1, 2, 4, 8, 16};
  EXPECT_EQ(quantile(values, 0), 1);
  EXPECT_EQ(quantile(values, 0.5), 4);
  EXPECT_EQ(quantile(values, 0.625), 6);
  EXPECT_EQ(quantile(values, 1), 16);
  EXPECT_EQ(quantile(std::span(values).first(1), 0.999), 1);
}

}  // namespace
}  // namespace krafla
