#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/mapped_file.h"
#include "tokenizer/decode.h"
#include "tokenizer/unicode.h"

namespace krafla {
namespace {

using Ids = std::vector<std::int32_t>;

std::string data(const std::string& name) { return std::string(KRAFLA_TEST_DATA) + "/tokenizers/" + name; }

const Tokenizer& smollm2() {
  static const Tokenizer tokenizer = Tokenizer::open(data("smollm2.mlt"));
  return tokenizer;
}

std::vector<nlohmann::json> lines(const std::string& name) {
  std::ifstream in(data(name));
  std::vector<nlohmann::json> result;
  for (std::string line; std::getline(in, line);) result.push_back(nlohmann::json::parse(line));
  EXPECT_FALSE(result.empty());
  return result;
}

std::vector<std::string> corpus() {
  std::vector<std::string> texts;
  for (const auto& line : lines("corpus.jsonl")) texts.push_back(line["text"]);
  return texts;
}

/// Any bytes: characters of every length, and some that are not UTF-8.
std::string random_text(std::mt19937& random, std::size_t pieces) {
  static const std::vector<std::string> kPieces = {" ",
                                                   "  ",
                                                   "\n",
                                                   "\r\n",
                                                   "\t",
                                                   "a",
                                                   "The",
                                                   "ing",
                                                   "'s",
                                                   "'LL",
                                                   "1",
                                                   "23",
                                                   "\xC3\xA9",
                                                   "\xE5\xA5\xBD",
                                                   "\xF0\x9F\x98\x80",
                                                   "\xCC\x81",
                                                   "\xE3\x80\x80",
                                                   "\xC2\x85",
                                                   "\xFF",
                                                   "\xE2\x82",
                                                   "\xED\xA0\x80",
                                                   "\xC0\xAF",
                                                   "<|im_end|>",
                                                   "<|im_",
                                                   "()",
                                                   "->",
                                                   "\xF0\x91\xB7\xA0",
                                                   "\xD9\xA3",
                                                   "\xC5\xBF",
                                                   std::string(1, '\0')};
  std::string text;
  for (std::size_t i = 0; i < pieces; ++i) text += kPieces[random() % kPieces.size()];
  return text;
}

TEST(Tokenizer, GoldenIdsAndTextsOfTheWholeCorpus) {
  const auto texts = corpus();
  const auto golden = lines("smollm2.jsonl");
  ASSERT_EQ(texts.size(), golden.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    SCOPED_TRACE(i);
    const auto& want = golden[i];
    const Ids ids = want["ids"].get<Ids>();
    EXPECT_EQ(smollm2().encode(texts[i], {.add_bos = false}), ids);
    EXPECT_EQ(smollm2().encode(texts[i]),
              want["ids_special"].is_null() ? ids : want["ids_special"].get<Ids>());
    const std::string text = want["dec"].is_null() ? texts[i] : want["dec"].get<std::string>();
    EXPECT_EQ(replace_invalid_utf8(smollm2().decode(ids)), text);
    EXPECT_EQ(replace_invalid_utf8(smollm2().decode(ids, true)),
              want["dec_skip"].is_null() ? text : want["dec_skip"].get<std::string>());
  }
}

TEST(Tokenizer, VocabularyLookUps) {
  EXPECT_EQ(smollm2().vocab_size(), 49152u);
  EXPECT_EQ(smollm2().bos(), 1);
  EXPECT_EQ(smollm2().eos(), 2);
  EXPECT_FALSE(smollm2().adds_bos());
  EXPECT_EQ(smollm2().token_bytes(2), "<|im_end|>");
  EXPECT_TRUE(smollm2().is_control(2));
  EXPECT_EQ(smollm2().find("<|im_end|>"), 2);
  EXPECT_EQ(smollm2().find("no such token, surely"), -1);
  EXPECT_EQ(smollm2().find(""), -1);
  for (std::int32_t id = 0; id < 49152; ++id) EXPECT_EQ(smollm2().find(smollm2().token_bytes(id)), id);
  for (const std::int32_t id : {-1, 49152}) {
    EXPECT_THROW(smollm2().token_bytes(id), Error);
    EXPECT_THROW(smollm2().decode(Ids{id}), Error);
    EXPECT_THROW(smollm2().is_control(id), Error);
  }
}

TEST(Tokenizer, UserTextNeverBecomesAControlToken) {
  const std::string text = "A<|im_end|>B";
  const Ids with = smollm2().encode(text), without = smollm2().encode(text, {.parse_special = false});
  EXPECT_EQ(std::count(with.begin(), with.end(), 2), 1);
  EXPECT_TRUE(
      std::none_of(without.begin(), without.end(), [](std::int32_t id) { return smollm2().is_control(id); }));
  EXPECT_EQ(smollm2().decode(without), text);

  // The same by ranges: the first <|im_end|> is the template's, the second touches the user's range [12, 20).
  const std::string chat = "x<|im_end|>y<|im_end|>z";
  const std::vector<TextRange> literal = {{12, 20}};
  const Ids ids = smollm2().encode(chat, {.literal = literal});
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 2), 1);
  EXPECT_EQ(smollm2().decode(ids), chat);
  EXPECT_EQ(ids[1], 2);
}

TEST(Tokenizer, AddedTokensThatAreNoControlTokensStayWhole) {
  Mlt mlt;
  mlt.tokens = {{"a", 0}, {"b", 0}, {"ab", 1}, {"abb", 1}, {"aa", 1}};
  mlt.merges = {{0, 0, 4}};
  const Tokenizer tokenizer(mlt, Ids{3, 4});
  EXPECT_EQ(tokenizer.encode("abbab"), (Ids{3, 2}));  // the longest
  EXPECT_EQ(tokenizer.encode("abbab", {.parse_special = false}),
            (Ids{2, 1, 2}));  // the longest of those allowed
  EXPECT_EQ(tokenizer.encode("aa"), (Ids{4}));
  EXPECT_EQ(tokenizer.encode("aa", {.parse_special = false}), (Ids{0, 0}));  // nor by merging
  EXPECT_THROW(Tokenizer(mlt, Ids{0}), Error);
  EXPECT_THROW(Tokenizer(mlt, Ids{5}), Error);
}

TEST(Tokenizer, BosFollowsTheFlagUnlessToldOtherwise) {
  Mlt mlt;
  mlt.tokens = {{"a", 0}, {"<s>", 1}};
  mlt.bos = 1;
  EXPECT_EQ(Tokenizer(mlt).encode("a"), (Ids{0}));
  EXPECT_EQ(Tokenizer(mlt).encode("a", {.add_bos = true}), (Ids{1, 0}));
  mlt.flags = kMltPrependBos;
  EXPECT_EQ(Tokenizer(mlt).encode("a"), (Ids{1, 0}));
  EXPECT_EQ(Tokenizer(mlt).encode(""), (Ids{1}));
  EXPECT_EQ(Tokenizer(mlt).encode("a", {.add_bos = false}), (Ids{0}));
  mlt.bos = -1;
  EXPECT_EQ(Tokenizer(mlt).encode("a", {.add_bos = true}), (Ids{0}));
}

TEST(Tokenizer, IgnoreMergesLooksTheWholePieceUpFirst) {
  Mlt mlt;
  mlt.tokens = {{"a", 0}, {"b", 0}, {"ab", 0}, {"aba", 0}};
  mlt.merges = {{0, 1, 2}};
  EXPECT_EQ(Tokenizer(mlt).encode("aba"), (Ids{2, 0}));
  mlt.flags = kMltIgnoreMerges;
  EXPECT_EQ(Tokenizer(mlt).encode("aba"), (Ids{3}));
}

const std::string kUnderline = "\xE2\x96\x81";  // U+2581

/// A SentencePiece vocabulary: 0..255 the bytes, then pieces.
Mlt sentencepiece(std::uint32_t flags) {
  static const std::vector<std::string> kTexts = [] {
    std::vector<std::string> texts;
    for (int b = 0; b < 256; ++b) texts.emplace_back(1, static_cast<char>(b));
    for (const char* text : {"\xE2\x96\x81", "a", "b",
                             "\xE2\x96\x81"
                             "a",
                             "ab", "</s>", "\xE2\x96\x81\xE2\x96\x81"})
      texts.emplace_back(text);
    return texts;
  }();
  Mlt mlt;
  mlt.kind = MltKind::kSentencePiece;
  mlt.flags = flags;
  for (std::size_t i = 0; i < kTexts.size(); ++i)
    mlt.tokens.push_back({kTexts[i], i < 256 ? kMltByte : i == 261 ? kMltAdded : std::uint8_t{0}});
  mlt.merges = {{256, 257, 259}, {257, 258, 260}, {256, 256, 262}};
  return mlt;
}

TEST(SentencePiece, ThePrefixFollowsTheFlags) {
  const Tokenizer always(sentencepiece(0)), first(sentencepiece(kMltPrefixAtStart)),
      never(sentencepiece(kMltNoPrefix));
  EXPECT_EQ(always.encode("a</s>a"), (Ids{259, 261, 259}));
  EXPECT_EQ(first.encode("a</s>a"), (Ids{259, 261, 257}));
  EXPECT_EQ(never.encode("a</s>a"), (Ids{257, 261, 257}));
  EXPECT_EQ(always.encode(" a"), (Ids{256, 259}));  // also before a space
  EXPECT_EQ(first.encode(" a"), (Ids{259}));
  EXPECT_EQ(never.encode(" a"), (Ids{259}));
  EXPECT_EQ(never.encode(kUnderline + "a"), (Ids{259}));
  for (const Tokenizer* tokenizer : {&always, &first, &never}) {
    EXPECT_EQ(tokenizer->encode(""), Ids{});
    EXPECT_EQ(tokenizer->decode(tokenizer->encode("a b</s>")), "a b</s>");
  }
}

TEST(SentencePiece, UnknownCharactersAreBytesAndByteTokensAreNotText) {
  const Tokenizer tokenizer(sentencepiece(kMltNoPrefix));
  EXPECT_EQ(tokenizer.encode("\xC3\xA9\n"), (Ids{0xC3, 0xA9, '\n'}));
  EXPECT_EQ(tokenizer.encode("\xFF"
                             "a\xE5"),
            (Ids{0xFF, 257, 0xE5}));  // no UTF-8
  EXPECT_EQ(tokenizer.encode("<0x40>"), (Ids{'<', '0', 'x', '4', '0', '>'}));
  EXPECT_EQ(tokenizer.decode(Ids{0xC3, 0xA9}), "\xC3\xA9");
}

TEST(SentencePiece, DecodingTakesOneSpaceAwayAtTheStart) {
  const Tokenizer always(sentencepiece(0)), never(sentencepiece(kMltNoPrefix));
  EXPECT_EQ(always.decode(Ids{259, 259}), "a a");
  EXPECT_EQ(never.decode(Ids{259, 259}), " a a");
  StreamDecoder whole(always), rest(always, false, true);
  EXPECT_EQ(whole.push(259), "a");
  EXPECT_EQ(whole.push(259), " a");
  EXPECT_EQ(rest.push(259), " a");
}

TEST(Tokenizer, NormalizesBetweenAddedTokens) {
  Mlt mlt;
  mlt.tokens = {{"e", 0}, {"\xC3", 0}, {"\xA9", 0}, {"\xCC", 0}, {"\x81", 0}, {"<e>", 1}};
  EXPECT_EQ(Tokenizer(mlt).encode("e\xCC\x81"), (Ids{0, 3, 4}));
  mlt.flags = kMltNfc;
  EXPECT_EQ(Tokenizer(mlt).encode("e\xCC\x81"), (Ids{1, 2}));
  EXPECT_EQ(Tokenizer(mlt).encode("e<e>\xCC\x81"), (Ids{0, 5, 3, 4}));
}

TEST(Tokenizer, ABatchIsTheTextsOneByOne) {
  ThreadPool pool(3);
  const auto texts = corpus();
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto batch = smollm2().encode_batch(pool, views);
  ASSERT_EQ(batch.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(batch[i], smollm2().encode(texts[i]));
}

TEST(Tokenizer, AnyBytesSurviveAndStreamsJoinToTheWhole) {
  std::mt19937 random(1);
  Mlt mlt;  // every byte has a token, unlike in smollm2
  std::vector<std::string> bytes;
  for (int b = 0; b < 256; ++b) bytes.emplace_back(1, static_cast<char>(b));
  for (const auto& b : bytes) mlt.tokens.push_back({b, 0});
  const Tokenizer all(mlt);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = random_text(random, random() % 40);
    EXPECT_EQ(all.decode(all.encode(text)), text);
    for (const Tokenizer* tokenizer : {&all, &smollm2()}) {
      const Ids ids = tokenizer->encode(text);
      const std::string whole = tokenizer->decode(ids, round % 2 == 1);
      StreamDecoder decoder(*tokenizer, round % 2 == 1);
      std::string joined;
      for (const std::int32_t id : ids) {
        const std::string part = decoder.push(id);
        EXPECT_TRUE(incomplete_utf8_tail(part) == 0 || replace_invalid_utf8(whole) != whole);
        joined += part;
      }
      joined += decoder.finish();
      EXPECT_EQ(joined, whole);
      EXPECT_EQ(decoder.finish(), "");
    }
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kLong = 100000;
#elif defined(__has_feature)
constexpr std::size_t kLong =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ? 100000 : 1000000;
#else
constexpr std::size_t kLong = 1000000;
#endif

const std::string kUnderlines = kUnderline + kUnderline;

/// Texts of one class of characters each, of `size` bytes or a few more.
std::vector<std::string> long_texts(std::size_t size) {
  std::vector<std::string> texts;
  for (const std::string unit : {"A",
                                 "a",
                                 "7",
                                 "\xD9\xA3",
                                 ".",
                                 "'",
                                 "<",
                                 " ",
                                 "\n",
                                 "\r\n",
                                 "\t",
                                 " \n",
                                 "\xE3\x80\x80",
                                 "\xE5\xA5\xBD",
                                 "\xE4\xB8\x80\xE4\xBA\xBA",
                                 "\xCC\x81",
                                 "\xCC\x81\xCC\xA3",
                                 "\xF0\x9F\x98\x80",
                                 "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB",
                                 "ab",
                                 "the ",
                                 "<|im_",
                                 "\xFF",
                                 "\xE5\xA5",
                                 "\xE2\x96\x81"}) {
    std::string text;
    while (text.size() < size) text += unit;
    texts.push_back(std::move(text));
  }
  texts.emplace_back(size, '\0');
  std::mt19937 random(7);
  for (const unsigned limit : {256u, 26u}) {  // any bytes, and a word of any letters
    std::string text;
    while (text.size() < size)
      text += static_cast<char>(limit == 26 ? 'a' + random() % limit : random() % limit);
    texts.push_back(std::move(text));
  }
  return texts;
}

// Quadratic time would be hours. Typically 0.1 s of processor time, which other programs on the machine do
// not change much.
void expect_fast(const Tokenizer& tokenizer, std::size_t size = kLong) {
  for (const std::string& text : long_texts(size)) {
    const std::clock_t start = std::clock();
    const Ids ids = tokenizer.encode(text);
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 4)
        << testing::PrintToString(text.substr(0, 8));
    EXPECT_LE(ids.size(), text.size() + 1);  // the prefix may be one
  }
}

TEST(Tokenizer, OneMegabyteOfOneClassIsFast) { expect_fast(smollm2()); }

TEST(Tokenizer, LongTextsOfOneClassAreFastWithEachFlag) {
  const MappedFile file(data("smollm2.mlt"));
  Mlt mlt = parse_mlt(file.bytes(), "smollm2.mlt");
  for (const std::uint32_t flags :
       {kMltNfc | kMltIgnoreMerges, kMltNfc | kMltSingleDigits | kMltMarksAreLetters}) {
    mlt.flags = flags;
    expect_fast(Tokenizer(mlt), kLong / 5);
  }
}

TEST(SentencePiece, OneMegabyteOfOneClassIsFast) {
  // Runs of "a" and of spaces that double, so that merges go on to the end, and a rule that joins everything
  // to everything.
  Mlt mlt = sentencepiece(kMltPrefixAtStart);
  std::vector<std::string> texts = {"aa", "aaaa", kUnderlines + kUnderlines, "ba", "abab"};
  const auto first = static_cast<std::uint32_t>(mlt.tokens.size());
  for (const std::string& text : texts) mlt.tokens.push_back({text, 0});
  for (const MltMerge& merge : {MltMerge{257, 257, first},
                                {first, first, first + 1},
                                {262, 262, first + 2},
                                {258, 257, first + 3},
                                {260, 260, first + 4}})
    mlt.merges.push_back(merge);
  expect_fast(Tokenizer(mlt));
}

TEST(Tokenizer, ThreadsShareOne) {
  const auto texts = corpus();
  const Tokenizer fresh = Tokenizer::open(data("smollm2.mlt"));
  std::vector<std::vector<Ids>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results)
    threads.emplace_back([&] {
      for (const auto& text : texts) result.push_back(fresh.encode(text));
    });
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, results[0]);
}

TEST(Bpe, BothWaysOfMergingAgree) {
  std::mt19937 random(2);
  for (int round = 0; round < 300; ++round) {
    const std::int32_t n =
        2 + static_cast<std::int32_t>(random() % 12);  // symbols; rules between them need no bytes here
    std::vector<MltMerge> merges(random() % 60);
    const auto any = [&] { return static_cast<std::uint32_t>(random() % static_cast<std::uint32_t>(n)); };
    for (auto& merge : merges) merge = {any(), any(), any()};
    const MergeTable table(merges, std::vector<bool>(static_cast<std::size_t>(n)));
    for (int text = 0; text < 30; ++text) {
      Ids a(random() % (kShortPiece + 1));
      for (auto& symbol : a) symbol = static_cast<std::int32_t>(any());
      Ids b = a;
      a.resize(merge_by_scan(table, a));
      b.resize(merge_by_heap(table, b));
      EXPECT_EQ(a, b);
    }
  }
}

/// Merging as the format page says it, pair by pair.
Ids merged_naively(const Mlt& mlt, Ids symbols) {
  for (;;) {
    std::size_t best = mlt.merges.size(), where = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
      for (std::size_t rank = mlt.merges.size(); rank-- > 0;) {  // the last rule of a pair counts
        const MltMerge& m = mlt.merges[rank];
        if (m.left != static_cast<std::uint32_t>(symbols[i]) ||
            m.right != static_cast<std::uint32_t>(symbols[i + 1]))
          continue;
        if (rank < best) best = rank, where = i;
        break;
      }
    if (best == mlt.merges.size()) return symbols;
    symbols[where] = static_cast<std::int32_t>(mlt.merges[best].merged);
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(where) + 1);
  }
}

/// A vocabulary of these tokens and of random merges of them, ranked in the order they were made or in none.
/// `texts` holds the bytes.
Mlt random_merges(std::mt19937& random, std::vector<std::string>& texts, std::size_t n_merges) {
  Mlt mlt;
  const std::size_t first = texts.size() > 256 ? 256 : 0;
  for (std::size_t i = 0; i < n_merges; ++i) {
    const auto any = [&] { return static_cast<std::uint32_t>(first + random() % (texts.size() - first)); };
    const MltMerge m = {any(), any(), static_cast<std::uint32_t>(texts.size())};
    const std::string both = texts[m.left] + texts[m.right];
    if (both.size() > 40) continue;
    const auto known = std::find(texts.begin() + static_cast<std::ptrdiff_t>(first), texts.end(), both);
    mlt.merges.push_back({m.left, m.right, static_cast<std::uint32_t>(known - texts.begin())});
    if (known == texts.end()) texts.push_back(both);
  }
  if (random() % 3 == 0) std::shuffle(mlt.merges.begin(), mlt.merges.end(), random);
  for (const std::string& text : texts) mlt.tokens.push_back({text, 0});
  return mlt;
}

TEST(Tokenizer, ShortCutsGiveWhatMergingGives) {
  std::mt19937 random(5);
  const std::vector<std::string> characters = {"a", "b", "\xC3\xA9", "\xE5\xA5\xBD", "\xE4\xBA\xBA"};
  for (int round = 0; round < 400; ++round) {
    std::vector<std::string> texts;
    for (const unsigned byte : {0x61, 0x62, 0xC3, 0xA9, 0xE5, 0xA5, 0xBD, 0xE4, 0xBA})
      texts.emplace_back(1, static_cast<char>(byte));
    Mlt mlt = random_merges(random, texts, 1 + random() % 60);
    if (random() % 2 == 0) mlt.flags = kMltGpt2Regex;
    const Tokenizer tokenizer(mlt);
    const Pretokenizer pretokenizer({.gpt2_regex = (mlt.flags & kMltGpt2Regex) != 0});
    for (int i = 0; i < 20; ++i) {
      std::string text;
      const bool broken = random() % 4 == 0;  // bytes as they come, seldom UTF-8
      for (std::size_t n = 1 + random() % 40; n > 0; --n) {
        text += broken ? texts[random() % 9] : characters[random() % characters.size()];
        if (random() % 16 == 0) text += random() % 2 == 0 ? '!' : '\xC2';  // without a token
      }
      Ids want;
      for (std::string_view rest = text; !rest.empty();) {
        const std::size_t n = pretokenizer.next(rest);
        Ids symbols;
        for (const char c : rest.substr(0, n))
          if (const auto it = std::find(texts.begin(), texts.end(), std::string(1, c)); it != texts.end())
            symbols.push_back(static_cast<std::int32_t>(it - texts.begin()));
        const Ids piece = merged_naively(mlt, symbols);
        want.insert(want.end(), piece.begin(), piece.end());
        rest.remove_prefix(n);
      }
      ASSERT_EQ(tokenizer.encode(text), want) << round << " " << testing::PrintToString(text);
      ASSERT_EQ(tokenizer.encode(text), want) << "the second time";
    }
  }
}

TEST(SentencePiece, ShortCutsGiveWhatMergingGives) {
  std::mt19937 random(6);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::string> texts;
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    const std::size_t first = texts.size();
    for (const char* character : {"a", "b", "\xE2\x96\x81", "\xC3\xA9", "\xE5\xA5\xBD", "\xE4\xBA\xBA"})
      texts.emplace_back(character);
    const std::size_t last = texts.size();
    Mlt mlt = random_merges(random, texts, 1 + random() % 60);
    mlt.kind = MltKind::kSentencePiece;
    mlt.flags = kMltNoPrefix;
    for (std::size_t i = 0; i < first; ++i) mlt.tokens[i].attr = kMltByte;
    const Tokenizer tokenizer(mlt);
    for (int i = 0; i < 20; ++i) {
      std::string text;
      Ids symbols;
      for (std::size_t n = 1 + random() % 40; n > 0; --n) {
        if (random() % 16 == 0) {  // a character without a token
          text += "\xC3\xA8";
          symbols.insert(symbols.end(), {0xC3, 0xA8});
        } else {
          symbols.push_back(static_cast<std::int32_t>(first + random() % (last - first)));
          text += texts[static_cast<std::size_t>(symbols.back())];
        }
      }
      ASSERT_EQ(tokenizer.encode(text), merged_naively(mlt, symbols))
          << round << " " << testing::PrintToString(text);
    }
  }
}

TEST(Unicode, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(replace_invalid_utf8("a\xC3\xA9\xF0\x9F\x98\x80"), "a\xC3\xA9\xF0\x9F\x98\x80");
  EXPECT_EQ(replace_invalid_utf8("\xFF"), "\xEF\xBF\xBD");
  EXPECT_EQ(replace_invalid_utf8("\xE2\x82z"), "\xEF\xBF\xBDz");  // one for a cut character
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"),
            "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // a surrogate: no prefix of anything
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(replace_invalid_utf8("\xF4\x90\x80\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(incomplete_utf8_tail("a\xE2\x82"), 2u);
  EXPECT_EQ(incomplete_utf8_tail("a\xE2\x82\xAC"), 0u);
  EXPECT_EQ(incomplete_utf8_tail("\xF0\x9F\x98"), 3u);
  EXPECT_EQ(incomplete_utf8_tail("\xC0"), 0u);
}

}  // namespace
}  // namespace krafla
