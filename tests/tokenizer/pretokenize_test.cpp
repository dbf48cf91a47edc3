#include "tokenizer/pretokenize.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace krafla {
namespace {

using Pieces = std::vector<std::string>;

constexpr PretokenizeRules kGpt2 = {.gpt2_regex = true};
constexpr PretokenizeRules kSmollm2 = {.gpt2_regex = true, .split_digits = true};
constexpr PretokenizeRules kLlama3 = {};
constexpr PretokenizeRules kQwen2 = {.single_digits = true};
constexpr PretokenizeRules kQwen35 = {.single_digits = true, .marks_are_letters = true};

Pieces cut(const PretokenizeRules& rules, std::string_view text) {
  const Pretokenizer pretokenizer(rules);
  Pieces pieces;
  while (!text.empty()) {
    const std::size_t n = pretokenizer.next(text);
    pieces.emplace_back(text.substr(0, n));
    text.remove_prefix(n);
  }
  return pieces;
}

TEST(Pretokenize, Words) {
  EXPECT_EQ(cut(kGpt2, "I'll  go, don't"), (Pieces{"I", "'ll", " ", " go", ",", " don", "'t"}));
  EXPECT_EQ(cut(kLlama3, "I'LL  go, don't"), (Pieces{"I", "'LL", " ", " go", ",", " don", "'t"}));
  EXPECT_EQ(cut(kGpt2, "I'LL"), (Pieces{"I", "'", "LL"}));
  EXPECT_EQ(cut(kLlama3, "(x)->y"), (Pieces{"(x", ")->", "y"}));
  EXPECT_EQ(cut(kGpt2, "(x)->y"), (Pieces{"(", "x", ")->", "y"}));
  EXPECT_EQ(cut(kLlama3, "a\xE3\x80\x80\xE5\xA5\xBD"), (Pieces{"a", "\xE3\x80\x80\xE5\xA5\xBD"}));
  EXPECT_EQ(cut(kGpt2, "a\xE3\x80\x80\xE5\xA5\xBD"), (Pieces{"a", "\xE3\x80\x80", "\xE5\xA5\xBD"}));
}

TEST(Pretokenize, LongSEqualsSWithoutCase) {
  EXPECT_EQ(cut(kLlama3, "a'\xC5\xBFx"), (Pieces{"a", "'\xC5\xBF", "x"}));
  EXPECT_EQ(cut(kGpt2, "a'\xC5\xBFx"), (Pieces{"a", "'", "\xC5\xBFx"}));
}

TEST(Pretokenize, Digits) {
  EXPECT_EQ(cut(kLlama3, "a 12345"), (Pieces{"a", " ", "123", "45"}));
  EXPECT_EQ(cut(kQwen2, "a 123"), (Pieces{"a", " ", "1", "2", "3"}));
  EXPECT_EQ(cut(kGpt2, "a 123"), (Pieces{"a", " 123"}));
  EXPECT_EQ(cut(kSmollm2, "a   12 b"),
            (Pieces{"a", "   ", "1", "2", " b"}));  // white space ends the text before a digit
  EXPECT_EQ(cut(kSmollm2, "\xF0\x91\xB7\xA0\xF0\x91\xB7\xA1"),
            (Pieces{"\xF0\x91\xB7\xA0", "\xF0\x91\xB7\xA1"}));                // U+11DE0, 11DE1
  EXPECT_EQ(cut(kGpt2, "\xF0\x91\xB7\xA0!"), (Pieces{"\xF0\x91\xB7\xA0!"}));  // no number to \p{N}
}

TEST(Pretokenize, WhiteSpace) {
  EXPECT_EQ(cut(kGpt2, "a \n  b "), (Pieces{"a", " \n ", " b", " "}));
  EXPECT_EQ(cut(kLlama3, "a \n \n  b"), (Pieces{"a", " \n \n", " ", " b"}));
  EXPECT_EQ(cut(kLlama3, "x):\n\ny"), (Pieces{"x", "):\n\n", "y"}));
  EXPECT_EQ(cut(kLlama3, "\n\tif"), (Pieces{"\n", "\tif"}));
  EXPECT_EQ(cut(kGpt2, "\n\tif"), (Pieces{"\n", "\t", "if"}));
  EXPECT_EQ(cut(kGpt2, "a\xC2\x85\xE2\x80\xA8z"),
            (Pieces{"a", "\xC2\x85", "\xE2\x80\xA8", "z"}));                        // U+0085, U+2028
  EXPECT_EQ(cut(kGpt2, "a\x1C!\xE2\x80\x8B"), (Pieces{"a", "\x1C!\xE2\x80\x8B"}));  // neither is a space
}

TEST(Pretokenize, Marks) {
  EXPECT_EQ(cut(kQwen2, "e\xCC\x81t"), (Pieces{"e", "\xCC\x81t"}));
  EXPECT_EQ(cut(kQwen35, "e\xCC\x81t"), (Pieces{"e\xCC\x81t"}));
  EXPECT_EQ(cut(kGpt2, "e\xCC\x81t"), (Pieces{"e", "\xCC\x81", "t"}));
  EXPECT_EQ(cut(kQwen35, "!\xF3\xA0\x84\x80"),
            (Pieces{"!\xF3\xA0\x84\x80"}));  // U+E0100, a mark beyond the table
}

TEST(Pretokenize, BytesThatAreNotUtf8AreOneCharacterEach) {
  EXPECT_EQ(cut(kGpt2, "a\xFF\xFE!b"), (Pieces{"a", "\xFF\xFE!", "b"}));
  EXPECT_EQ(cut(kGpt2, "\xE5\xA5z"), (Pieces{"\xE5\xA5", "z"}));
  EXPECT_EQ(cut(kLlama3, "\xE5\xA5z"), (Pieces{"\xE5\xA5", "z"}));  // only one may come before letters
  EXPECT_EQ(cut(kLlama3, "\xA5z"), (Pieces{"\xA5z"}));
}

}  // namespace
}  // namespace krafla
