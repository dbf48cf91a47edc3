#include "formats/mll.h"

#include <gtest/gtest.h>

#include "test_files.h"

namespace krafla {
namespace {

using Words = std::vector<std::uint32_t>;

/// The fields from the version to bos, and the ids: two windows of four tokens, as docs/formats/logits.md has
/// them. Header and ids take 64 bytes; two rows of three logits follow.
Words good_words() { return {1, 3, 4, 0, 2, 8, 0xffffffffu, 2, 1, 0, 2, 1, 0, 2, 1}; }

std::vector<std::uint8_t> file_of(const Words& words, std::size_t logits = 6) {
  std::vector<std::uint8_t> bytes = {'M', 'L', 'L', '1'};
  const auto add = [&](std::uint32_t word) {
    for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::uint8_t>(word >> (8 * i)));
  };
  for (const std::uint32_t word : words) add(word);
  bytes.resize((bytes.size() + 63) / 64 * 64);
  for (std::uint32_t i = 0; i < logits; ++i) add(std::bit_cast<std::uint32_t>(0.5f * static_cast<float>(i)));
  return bytes;
}

TEST(Mll, ReadsWhatThePageDescribes) {
  const auto bytes = file_of(good_words());
  const Mll mll = parse_mll(bytes, "good.mll");
  EXPECT_EQ(mll.text.vocab, 3u);
  EXPECT_EQ(mll.text.windows, (Windows{.ctx = 4, .stride = 0, .count = 2, .n_ids = 8}));
  EXPECT_EQ(mll.text.bos, -1);
  EXPECT_EQ(std::vector<std::int32_t>(mll.text.ids.begin(), mll.text.ids.end()),
            (std::vector<std::int32_t>{2, 1, 0, 2, 1, 0, 2, 1}));
  EXPECT_EQ(mll.text.windows.rows(), 2u);
  EXPECT_EQ(std::vector<float>(mll.row(1).begin(), mll.row(1).end()), (std::vector<float>{1.5f, 2.0f, 2.5f}));
}

TEST(Mll, WriterGivesTheSameBytes) {
  const TemporaryFolder folder;
  const auto bytes = file_of(good_words());
  const Mll mll = parse_mll(bytes, "good.mll");
  MllWriter writer(folder.file("x.mll"), mll.text);
  EXPECT_EQ(outcome([&] { writer.add(mll.row(0).first(2)); }).first, "ML_E_ARG");
  writer.add(mll.row(0));
  EXPECT_EQ(outcome([&] { writer.commit(); }).first, "ML_E_ARG");
  EXPECT_FALSE(std::filesystem::exists(folder.file("x.mll")));
  writer.add(mll.row(1));
  EXPECT_EQ(outcome([&] { writer.add(mll.row(1)); }).first, "ML_E_ARG");
  writer.commit();
  EXPECT_EQ(file_bytes(folder.file("x.mll")), bytes);
}

TEST(Mll, EachBadFieldIsNamed) {
  const struct {
    std::size_t word;
    std::uint32_t value;
    const char* mention;
  } cases[] = {{0, 2, "version is 2"},
               {1, 0, "vocab is 0"},
               {1, (1u << 24) + 1, "vocab is 16777217"},
               {2, 3, "ctx is 3"},
               {2, (1u << 24) + 1, "ctx is"},
               {3, 4, "stride is 4"},
               {4, 0, "windows is 0"},
               {4, 3, "n_ids is 8"},
               {5, 9, "n_ids is 9"},
               {5, 0xffffffffu, "n_ids is"},
               {6, 3, "bos is 3"},
               {6, 0xfffffffeu, "bos is -2"},
               {9, 3, "token 2 is 3"},
               {9, 0xffffffffu, "token 2 is -1"}};
  for (const auto& c : cases) {
    Words words = good_words();
    words[c.word] = c.value;
    const auto [status, message] = outcome([&] { parse_mll(file_of(words), "bad.mll"); });
    EXPECT_EQ(status, "ML_E_FORMAT") << c.mention;
    EXPECT_NE(message.find("bad.mll: "), std::string::npos) << message;
    EXPECT_NE(message.find(c.mention), std::string::npos) << message << "; wanted: " << c.mention;
  }
  auto padded = file_of({1, 3, 4, 0, 1, 4, 0xffffffffu, 2, 1, 0, 2}, 3);
  EXPECT_EQ(outcome([&] { parse_mll(padded, "x"); }).first, "ML_OK");
  padded[50] = 7;
  EXPECT_NE(outcome([&] { parse_mll(padded, "x"); }).second.find("padding"), std::string::npos);
}

TEST(Mll, EveryOtherLengthIsRefused) {
  auto whole = file_of(good_words());
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const Exact cut(Bytes(whole).first(n));
    EXPECT_EQ(outcome([&] { parse_mll(cut.span(), "cut.mll"); }).first, "ML_E_FORMAT") << n;
  }
  whole.push_back(0);
  EXPECT_EQ(outcome([&] { parse_mll(whole, "long.mll"); }).first, "ML_E_FORMAT");
}

TEST(Mll, TheTextMustBeTheOneScored) {
  const auto bytes = file_of(good_words());
  const ScoredText saved = parse_mll(bytes, "x.mll").text;
  EXPECT_EQ(outcome([&] { check_same_text(saved, saved, "x.mll"); }).first, "ML_OK");
  std::vector<std::int32_t> ids(saved.ids.begin(), saved.ids.end());
  ids[5] = 1;
  ScoredText other[] = {saved, saved, saved, saved};
  other[0].ids = ids;
  other[1].bos = 1;
  other[2].vocab = 4;
  other[3].windows = {.ctx = 8, .stride = 0, .count = 1, .n_ids = 8};
  const char* mentions[] = {"token 5", "bos", "vocab", "ctx"};
  for (std::size_t i = 0; i < std::size(other); ++i) {
    const auto [status, message] = outcome([&] { check_same_text(saved, other[i], "x.mll"); });
    EXPECT_EQ(status, "ML_E_SHAPE");
    EXPECT_NE(message.find(mentions[i]), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace krafla
