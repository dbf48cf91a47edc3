// Any text through a small tokenizer with every pre-tokenizer: nothing is lost, both ways of merging agree, a
// user's text makes no control token, and a stream joins to the whole. SentencePiece gives what merging word
// for word gives; NFC settles.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/decode.h"
#include "tokenizer/normalize.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

namespace {

using krafla::Mlt;
using Ids = std::vector<std::int32_t>;

/// The text of every byte.
const std::vector<std::string>& single_bytes() {
  static const std::vector<std::string> kBytes = [] {
    std::vector<std::string> bytes;
    for (int b = 0; b < 256; ++b) bytes.emplace_back(1, static_cast<char>(b));
    return bytes;
  }();
  return kBytes;
}

/// All bytes, tokens made by merges, a control token and a longer added one that begins with it.
const Mlt& vocabulary() {
  static const Mlt kMlt = [] {
    Mlt mlt;
    for (const std::string& byte : single_bytes()) mlt.tokens.push_back({byte, 0});
    const auto merge = [&](std::uint32_t left, std::uint32_t right, std::string_view bytes) {
      mlt.merges.push_back({left, right, static_cast<std::uint32_t>(mlt.tokens.size())});
      mlt.tokens.push_back({bytes, 0});
    };
    merge('h', 'e', "he");
    merge('t', 256, "the");
    merge(' ', ' ', "  ");
    merge(258, 258, "    ");
    merge('a', 'a', "aa");
    merge(260, 'a', "aaa");
    merge(' ', 't', " t");
    merge(262, 256, " the");
    merge('\n', '\n', "\n\n");
    merge(0xE5, 0xA5, "\xE5\xA5");
    mlt.tokens.push_back({"<|x|>", 1});
    mlt.tokens.push_back({"<|x|>yy", 1});
    return mlt;
  }();
  return kMlt;
}

constexpr std::int32_t kControl = 266;

void require(bool holds) {
  if (!holds) std::abort();
}

void both_ways_of_merging(std::string_view text) {
  static const krafla::MergeTable kTable(vocabulary().merges, std::vector<bool>(vocabulary().tokens.size()));
  for (std::size_t at = 0; at < text.size(); at += krafla::kShortPiece) {
    Ids scan;
    for (const char c : text.substr(at, krafla::kShortPiece)) scan.push_back(static_cast<std::uint8_t>(c));
    Ids heap = scan;
    scan.resize(krafla::merge_by_scan(kTable, scan));
    heap.resize(krafla::merge_by_heap(kTable, heap));
    require(scan == heap);
  }
}

/// U+2581, letters, merges of both, a character of three bytes; every byte but 0xFF has a token.
const Mlt& sentencepiece() {
  static const Mlt kMlt = [] {
    Mlt mlt;
    mlt.kind = krafla::MltKind::kSentencePiece;
    for (const std::string& byte : single_bytes()) mlt.tokens.push_back({byte, krafla::kMltByte});
    for (const char* piece :
         {"\u2581", "a", "b", "\u2581a", "ab", "\u2581\u2581", "\u597D", "a\u597D", "ba", "\u2581ab"})
      mlt.tokens.push_back({piece, 0});
    mlt.merges = {{256, 257, 259}, {257, 258, 260}, {256, 256, 261}, {257, 262, 263},
                  {258, 257, 264}, {259, 258, 265}, {256, 260, 265}};
    mlt.tokens.push_back({"<|x|>", 1});
    return mlt;
  }();
  return kMlt;
}

/// The definition, word for word: as long as a rule applies, the lowest rank, the leftmost pair.
Ids merge_naively(const Mlt& mlt, Ids symbols) {
  for (;;) {
    std::size_t best_rank = mlt.merges.size(), best = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
      for (std::size_t rank = 0; rank < best_rank; ++rank)
        if (mlt.merges[rank].left == static_cast<std::uint32_t>(symbols[i]) &&
            mlt.merges[rank].right == static_cast<std::uint32_t>(symbols[i + 1])) {
          best_rank = rank;
          best = i;
        }
    if (best_rank == mlt.merges.size()) return symbols;
    symbols[best] = static_cast<std::int32_t>(mlt.merges[best_rank].merged);
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

/// The ids of a text without added tokens, merged whole: the cuts of MergeBoundaries must change nothing.
void sentencepiece_is_the_naive_loop(std::string_view text) {
  static const krafla::Tokenizer kTokenizer = [] {
    Mlt mlt = sentencepiece();
    mlt.flags = krafla::kMltNoPrefix;
    return krafla::Tokenizer(mlt, Ids{266});
  }();
  text = text.substr(0, 300);
  Ids symbols;
  for (std::string_view rest = text; !rest.empty();) {
    const krafla::Utf8Char c = krafla::read_utf8(rest);
    const std::string_view character = rest.substr(0, c.valid ? c.length : 1);
    rest.remove_prefix(character.size());
    const std::string_view piece = character == " " ? krafla::kMltSpace : character;
    const auto& tokens = sentencepiece().tokens;
    const auto known = std::find_if(tokens.begin() + 256, tokens.begin() + 266,
                                    [&](const krafla::MltToken& t) { return t.bytes == piece; });
    if (known != tokens.begin() + 266)
      symbols.push_back(static_cast<std::int32_t>(known - tokens.begin()));
    else
      for (const char byte : character) symbols.push_back(static_cast<std::uint8_t>(byte));
  }
  require(kTokenizer.encode(text, {.parse_special = false}) == merge_naively(sentencepiece(), symbols));
}

/// Normalizing twice is normalizing once, and text that NFC leaves alone keeps its ids.
void nfc_settles(std::string_view text) {
  static const auto kTokenizers = [] {
    Mlt mlt = vocabulary();
    mlt.flags = krafla::kMltNfc;
    return std::pair(krafla::Tokenizer(mlt, Ids{kControl}), krafla::Tokenizer(vocabulary(), Ids{kControl}));
  }();
  std::string buffer, again;
  const std::string once(krafla::to_nfc(text, buffer));
  require(krafla::to_nfc(once, again) == once);
  std::vector<krafla::TextRange> ranges;
  const Ids ids = kTokenizers.first.encode(text, {.parse_special = false, .ranges = &ranges});
  require(ranges.size() == ids.size());
  for (const krafla::TextRange& range : ranges)
    require(range.first <= range.second && range.second <= text.size());
  if (text.find("yy") == text.npos) require(ids == kTokenizers.second.encode(once, {.parse_special = false}));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<krafla::Tokenizer> kTokenizers = [] {
    std::vector<krafla::Tokenizer> tokenizers;
    using namespace krafla;
    for (const std::uint32_t flags :
         {kMltGpt2Regex | kMltSplitDigits, kMltGpt2Regex, kMltIgnoreMerges,
          kMltSingleDigits | kMltMarksAreLetters, std::uint32_t{kMltSplitDigits}}) {
      Mlt mlt = vocabulary();
      mlt.flags = flags;
      tokenizers.emplace_back(mlt, Ids{kControl});
    }
    return tokenizers;
  }();
  if (size == 0) return 0;
  const krafla::Tokenizer& tokenizer = kTokenizers[data[0] % kTokenizers.size()];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Ids ids = tokenizer.encode(text), user = tokenizer.encode(text, {.parse_special = false});
  require(tokenizer.decode(ids) == text && tokenizer.decode(user) == text);
  require(std::find(user.begin(), user.end(), kControl) == user.end());
  krafla::StreamDecoder decoder(tokenizer);
  std::string joined;
  for (const std::int32_t id : ids) joined += decoder.push(id);
  require(joined + decoder.finish() == text);
  both_ways_of_merging(text);
  sentencepiece_is_the_naive_loop(text);
  nfc_settles(text);
  return 0;
}
