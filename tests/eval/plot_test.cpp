// Plots: ticks, places, escaping. That the file is well-formed XML is tested from Python (test_bench.py).
#include "eval/plot.h"

#include <gtest/gtest.h>

#include <string>

namespace krafla {
namespace {

TEST(AxisTicks, AreRoundNumbersThatReachTheMost) {
  EXPECT_EQ(axis_ticks(7), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(axis_ticks(8), (std::vector<double>{0, 2, 4, 6, 8}));
  EXPECT_EQ(axis_ticks(130), (std::vector<double>{0, 20, 40, 60, 80, 100, 120, 140}));
  EXPECT_EQ(axis_ticks(0.25), (std::vector<double>{0, 0.05, 0.1, 0.15, 0.2, 0.25}));
  EXPECT_EQ(axis_ticks(0), (std::vector<double>{0, 1}));
  EXPECT_EQ(axis_ticks(-1), (std::vector<double>{0, 1}));
  for (double most = 1e-6; most < 1e9; most *= 1.37) {
    const auto ticks = axis_ticks(most);
    EXPECT_GE(ticks.back(), most);
    EXPECT_LE(ticks.size(), 8u) << most;
    EXPECT_GE(ticks.size(), 4u) << most;
  }
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

TEST(Svg, HasALineForEachAndDashesForALimit) {
  const std::string text =
      svg({"a < b & c",
           "x",
           "y",
           {{"one", {{0, 10}, {100, 5}}}, {"limit", {{0, 20}, {100, 20}}, true}, {"two", {{50, 1}}}}});
  EXPECT_EQ(count(text, "<polyline"), 3u);
  EXPECT_EQ(count(text, "<circle"), 3u);
  EXPECT_EQ(
      count(
          text,
          "<polyline points=\"70.0,40.0 560.0,40.0\" stroke=\"#1f77b4\" stroke-width=\"2\" stroke-dasharray"),
      1u);                                               // at the top, its line's colour
  EXPECT_EQ(count(text, "70.0,205.0 560.0,287.5"), 1u);  // half and a quarter of the height
  EXPECT_EQ(count(text, "a &lt; b &amp; c"), 1u);
}

TEST(Svg, NoLinesAndOddNamesAreNoTrouble) {
  EXPECT_EQ(count(svg({}), "</svg>"), 1u);
  EXPECT_EQ(count(svg({"bell\a \xff", "", "", {}}), "bell? ?"), 1u);
}

}  // namespace
}  // namespace krafla
