// Any text through a small tokenizer with every pre-tokenizer: nothing is lost, both ways of merging agree, a user's text
// makes no control token, and a stream joins to the whole.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/decode.h"
#include "tokenizer/tokenizer.h"

namespace {

using krafla::Mlt;
using Ids = std::vector<std::int32_t>;

/// All bytes, tokens made by merges, a control token and a longer added one that begins with it.
const Mlt& vocabulary() {
  static const std::vector<std::string> kBytes = [] {
    std::vector<std::string> bytes;
    for (int b = 0; b < 256; ++b) bytes.emplace_back(1, static_cast<char>(b));
    return bytes;
  }();
  static const Mlt kMlt = [] {
    Mlt mlt;
    for (const std::string& byte : kBytes) mlt.tokens.push_back({byte, 0});
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::vector<krafla::Tokenizer> kTokenizers = [] {
    std::vector<krafla::Tokenizer> tokenizers;
    using namespace krafla;
    for (const std::uint32_t flags : {kMltGpt2Regex | kMltSplitDigits, kMltGpt2Regex, kMltIgnoreMerges,
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
  return 0;
}
