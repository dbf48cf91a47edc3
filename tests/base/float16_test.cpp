#include "base/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace krafla {
namespace {

TEST(Float16, EveryValueRoundTrips) {
  for (std::uint32_t h = 0; h < 0x10000u; ++h) {
    const float f = f16_to_float(static_cast<std::uint16_t>(h));
    if (std::isnan(f)) {
      EXPECT_TRUE((h & 0x7fffu) > 0x7c00u);
      EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(f))));
    } else {
      EXPECT_EQ(float_to_f16(f), h);
    }
  }
}

TEST(Float16, RoundsToNearestEvenBetweenNeighbours) {
  for (std::uint32_t h = 0; h < 0x7bffu; ++h) {
    const double lower = f16_to_float(static_cast<std::uint16_t>(h));
    const double upper = f16_to_float(static_cast<std::uint16_t>(h + 1));
    const auto middle = static_cast<float>((lower + upper) / 2);  // exact: floats hold it
    EXPECT_EQ(float_to_f16(middle), h % 2 == 0 ? h : h + 1);
    EXPECT_EQ(float_to_f16(std::nextafterf(middle, 0)), h);
    EXPECT_EQ(float_to_f16(std::nextafterf(middle, 1e9f)), h + 1);
  }
}

TEST(Float16, OverflowAndKnownValues) {
  EXPECT_EQ(float_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(float_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_f16(-1e30f), 0xfc00);
  EXPECT_EQ(float_to_f16(1.0f), 0x3c00);
  EXPECT_EQ(float_to_f16(0x1p-25f), 0x0000);
  EXPECT_EQ(float_to_f16(-0x1.8p-25f), 0x8001);
  EXPECT_EQ(f16_to_float(0x3555), 0x1.554p-2f);
}

}  // namespace
}  // namespace krafla
