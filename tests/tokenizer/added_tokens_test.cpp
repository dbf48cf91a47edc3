#include "tokenizer/added_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace krafla {
namespace {

/// Texts by id, of which `control` are control tokens.
struct Tokens {
  std::vector<std::string> texts;
  std::vector<bool> control;

  void add(std::string text, bool is_control) {
    texts.push_back(std::move(text));
    control.push_back(is_control);
  }
  AddedTokens added() const {
    Mlt mlt;
    for (const std::string& text : texts) mlt.tokens.push_back({text, kMltAdded});
    return AddedTokens(mlt, control);
  }
};

using Matches = std::vector<AddedTokens::Match>;

/// By the words: leftmost first, of those the longest, of equal ones the lowest id; each place, each token.
Matches by_the_words(const Tokens& tokens, std::string_view text, bool controls,
                     const std::vector<TextRange>& literal) {
  Matches matches;
  for (std::size_t at = 0; at < text.size();) {
    AddedTokens::Match best{static_cast<std::uint32_t>(at), 0, -1};
    for (std::size_t id = 0; id < tokens.texts.size(); ++id) {
      const std::string& token = tokens.texts[id];
      const auto first = std::find(tokens.texts.begin(), tokens.texts.end(), token);
      const bool control = tokens.control[static_cast<std::size_t>(first - tokens.texts.begin())];
      const auto touches = [&](const TextRange& range) {
        return range.first < at + token.size() && at < range.second;
      };
      const bool allowed = !control || (controls && std::none_of(literal.begin(), literal.end(), touches));
      if (allowed && text.substr(at).starts_with(token) && token.size() > best.length)
        best = {best.at, static_cast<std::uint32_t>(token.size()), static_cast<std::int32_t>(id)};
    }
    if (best.id >= 0) matches.push_back(best);
    at += std::max<std::size_t>(best.length, 1);
  }
  return matches;
}

bool same(const Matches& a, const Matches& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const AddedTokens::Match& x, const AddedTokens::Match& y) {
                      return x.at == y.at && x.length == y.length && x.id == y.id;
                    });
}

class Random {
 public:
  std::size_t below(std::size_t n) { return random_() % n; }
  std::string text(std::size_t length, std::size_t letters) {
    std::string result;
    for (std::size_t i = 0; i < length; ++i) result += static_cast<char>('a' + below(letters));
    return result;
  }

 private:
  std::mt19937 random_{1};
};

/// Few letters, so that tokens overlap, contain and repeat each other in all ways.
TEST(AddedTokens, AreLeftmostThenLongest) {
  Random random;
  for (int round = 0; round < 3000; ++round) {
    const std::size_t letters = 1 + random.below(3);
    Tokens tokens;
    for (std::size_t n = random.below(8); n > 0; --n)
      tokens.add(random.text(1 + random.below(6), letters), random.below(2) == 0);
    const std::string text = random.text(random.below(40), letters + random.below(2));
    std::vector<TextRange> literal;
    for (std::size_t at = random.below(12); at < text.size(); at += 1 + random.below(12)) {
      const std::size_t end = std::min(text.size(), at + 1 + random.below(6));
      literal.emplace_back(at, end);
      at = end;
    }
    const AddedTokens added = tokens.added();
    for (const bool controls : {true, false})
      for (const auto& ranges : {literal, std::vector<TextRange>()})
        ASSERT_TRUE(
            same(added.find_all(text, controls, ranges), by_the_words(tokens, text, controls, ranges)))
            << round << " " << text;
  }
}

TEST(AddedTokens, AnyBytesAndNone) {
  Tokens none;
  EXPECT_TRUE(none.added().find_all("abc", true, {}).empty());
  none.add("", true);
  EXPECT_TRUE(none.added().find_all("abc", true, {}).empty());
  EXPECT_EQ(none.added().find(""), -1);
  Tokens all;
  for (int b = 0; b < 256; ++b) all.add(std::string(1, static_cast<char>(b)), b % 2 == 0);
  std::string text;
  for (int b = 255; b >= 0; --b) text += static_cast<char>(b);
  EXPECT_TRUE(same(all.added().find_all(text, true, {}), by_the_words(all, text, true, {})));
  EXPECT_TRUE(same(all.added().find_all(text, false, {}), by_the_words(all, text, false, {})));
  EXPECT_EQ(all.added().find(std::string(1, '\0')), 0);
}

/// Each would take many minutes if a place were tried for each token, or gone over again after a match.
class HostileTokens : public testing::Test {
 protected:
  static constexpr std::size_t kTokens = 4000, kText = std::size_t{1} << 21;
  const std::string text_ = std::string(kText, 'a');
};

TEST_F(HostileTokens, BeginAtEveryPlaceAndNeverEnd) {
  Tokens tokens;
  for (std::size_t n = 1; n <= kTokens; ++n) tokens.add(std::string(n, 'a').append("b"), n % 2 == 0);
  EXPECT_TRUE(tokens.added().find_all(text_, true, {}).empty());
  EXPECT_EQ(tokens.added().find_all(text_ + "b", true, {}).size(), 1u);
  tokens.add("a", false);
  EXPECT_EQ(tokens.added().find_all(text_, true, {}).size(), kText);
}

TEST_F(HostileTokens, EndAtEveryPlaceAndNeverBegin) {
  Tokens tokens;
  for (std::size_t n = 1; n <= kTokens; ++n) tokens.add(std::string("b").append(n, 'a'), n % 2 == 0);
  EXPECT_TRUE(tokens.added().find_all(text_, true, {}).empty());
  tokens.add("a", true);
  EXPECT_EQ(tokens.added().find_all(text_, true, {}).size(), kText);
}

TEST_F(HostileTokens, AreControlTokensInManyGapsOfAUsersText) {
  Tokens tokens;
  for (std::size_t n = 2; n <= kTokens; ++n) tokens.add(std::string(n, 'a'), true);
  std::vector<TextRange> literal;
  for (std::size_t at = 0; at < kText; at += 2) literal.emplace_back(at, at + 1);
  EXPECT_TRUE(tokens.added().find_all(text_, true, literal).empty());
  EXPECT_TRUE(tokens.added().find_all(text_, false, literal).empty());
  EXPECT_EQ(tokens.added().find_all(text_, true, {}).size(), (kText + kTokens - 1) / kTokens);
}

}  // namespace
}  // namespace krafla
