#include "base/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace krafla {
namespace {

/// Error of `got` in units in the last place of a float near `want`.
double ulps(float got, double want) {
  const double spacing = std::ldexp(1.0, std::max(std::ilogb(want), -126) - 23);
  return std::fabs(got - want) / spacing;
}

TEST(Math, ExpIsWithinTwoUlpEverywhere) {
  double worst = 0;
  for (std::uint32_t bits = 0; bits < 0x42b17218u; bits += 997)
    for (float x : {std::bit_cast<float>(bits), -std::bit_cast<float>(bits)}) {
      if (x < -87.33f || x > 0x1.62e42ep+6f) continue;
      worst = std::max(worst, ulps(math::exp(x), std::exp(static_cast<double>(x))));
    }
  EXPECT_LT(worst, 2.0);
}

TEST(Math, ExpEdges) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(math::exp(0.0f), 1.0f);
  EXPECT_EQ(math::exp(-0.0f), 1.0f);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(math::exp(-87.34f)), 0u);
  EXPECT_EQ(math::exp(-inf), 0.0f);
  EXPECT_EQ(math::exp(inf), inf);
  EXPECT_EQ(math::exp(0x1.62e430p+6f), inf);
  EXPECT_LT(math::exp(0x1.62e42ep+6f), inf);
  EXPECT_GE(math::exp(-87.33f), std::numeric_limits<float>::min());
  EXPECT_TRUE(std::isnan(math::exp(std::nanf(""))));
}

TEST(Math, TanhIsCloseAndOdd) {
  double worst = 0;
  for (std::uint32_t bits = 0x00800000u; bits < 0x42000000u; bits += 1009) {
    const float x = std::bit_cast<float>(bits);
    worst = std::max(worst, ulps(math::tanh(x), std::tanh(static_cast<double>(x))));
    ASSERT_EQ(math::tanh(-x), -math::tanh(x));
  }
  EXPECT_LT(worst, 2.5);
  EXPECT_EQ(math::tanh(1e30f), 1.0f);
  EXPECT_TRUE(std::isnan(math::tanh(std::nanf(""))));
}

TEST(Math, DoublesAreCloseToLibm) {
  for (double x = -700; x < 700; x += 0.37) EXPECT_NEAR(math::exp(x) / std::exp(x), 1.0, 1e-15);
  for (double x = 1e-300; x < 1e300; x *= 1.9)
    EXPECT_NEAR(math::log(x), std::log(x), 3e-16 * std::fabs(std::log(x)) + 1e-16);
  for (double x = -2e7; x < 2e7; x += 1234.567) {
    const auto [s, c] = math::sincos(x);
    EXPECT_NEAR(s, std::sin(x), 1e-15);
    EXPECT_NEAR(c, std::cos(x), 1e-15);
  }
  EXPECT_EQ(math::pow(10000.0, 0.0), 1.0);
  EXPECT_TRUE(std::isnan(math::sincos(std::numeric_limits<double>::infinity()).sin));
  EXPECT_TRUE(std::isnan(math::log(-1.0)));
}

TEST(Math, Log1p) {
  EXPECT_EQ(math::log1p(0.0f), 0.0f);
  EXPECT_EQ(math::log1p(1e-30f), 1e-30f);
  for (float x = 1e-9f; x < 1; x *= 1.3f)
    EXPECT_LT(ulps(math::log1p(x), std::log1p(static_cast<double>(x))), 0.51);
  EXPECT_EQ(math::log(0.0f), -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace krafla
