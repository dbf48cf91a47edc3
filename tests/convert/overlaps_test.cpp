#include "convert/overlaps.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace krafla {
namespace {

bool overlap(std::string_view early, std::string_view late) {
  for (std::size_t k = 0; !early.empty() && k < late.size(); ++k)
    if (late.substr(k).starts_with(early) || early.starts_with(late.substr(k))) return true;
  return false;
}

// Against the definition, on short texts of few letters, where everything overlaps in every way.
TEST(Overlaps, EqualsTheDefinition) {
  std::mt19937 random(1);
  const auto text = [&](std::size_t longest) {
    std::string s(random() % (longest + 1), 'a');
    for (char& c : s) c = static_cast<char>('a' + random() % 4);
    return s;
  };
  int found = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> texts(random() % 4);
    for (std::string& s : texts) s = text(5);
    const std::vector<std::string_view> views(texts.begin(), texts.end());
    const Overlaps overlaps(views);
    const std::string late = text(5);
    const std::size_t i = overlaps.find(late);
    bool any = false;
    for (const std::string_view early : views) any |= overlap(early, late);
    ASSERT_EQ(i != Overlaps::kNone, any) << late << " in " << testing::PrintToString(texts);
    if (any) {
      EXPECT_TRUE(overlap(views[i], late)) << late << " and " << views[i];
    }
    found += any;
  }
  EXPECT_GT(found, 2000);
  EXPECT_LT(found, 18000);
}

// Comparing all pairs would be 10^10 steps.
TEST(Overlaps, ManyAndLongTexts) {
  std::vector<std::string> texts;
  for (int i = 0; i < 100000; ++i) texts.push_back(std::to_string(i).append(">"));
  texts.push_back(std::string(1000000, 'a') + "b");
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const Overlaps overlaps(views);
  for (int i = 0; i < 100000; ++i) ASSERT_EQ(overlaps.find(std::to_string(i).append("]")), Overlaps::kNone);
  EXPECT_EQ(overlaps.find(std::string(1000000, 'a') + "c"), Overlaps::kNone);
  EXPECT_EQ(overlaps.find("c" + std::string(1000000, 'a')), texts.size() - 1);
}

}  // namespace
}  // namespace krafla
