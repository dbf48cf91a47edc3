#include "convert/gguf_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <unordered_map>

#include "tokenizer/unicode.h"

namespace krafla {
namespace {

/// What a name in tokenizer.ggml.pre implies.
struct PreTokenizer {
  std::string_view name;
  std::uint32_t flags;
  bool adds_bos;  // when tokenizer.ggml.add_bos_token is missing
};

constexpr std::uint32_t kGpt2 = kMltGpt2Regex;
constexpr std::uint32_t kStarcoder = kMltGpt2Regex | kMltSplitDigits;
constexpr std::uint32_t kQwen2 = kMltNfc | kMltSingleDigits;
constexpr PreTokenizer kPreTokenizers[] = {
    {"gpt-2", kGpt2, false},
    {"phi-2", kGpt2, false},
    {"smollm", kStarcoder, false},
    {"starcoder", kStarcoder, false},
    {"refact", kStarcoder, false},
    {"codeshell", kStarcoder, false},
    {"command-r", kStarcoder | kMltNfc, false},
    {"llama-bpe", kMltIgnoreMerges, true},
    {"llama3", kMltIgnoreMerges, true},
    {"llama-v3", kMltIgnoreMerges, true},
    {"falcon3", kMltIgnoreMerges, true},
    {"smaug-bpe", 0, false},  // Llama 3's regex, without its ignore_merges
    {"dbrx", 0, false},
    {"chatglm-bpe", 0, false},
    {"qwen2", kQwen2, false},
    {"deepseek-r1-qwen", kQwen2, false},
    {"qwen35", kQwen2 | kMltMarksAreLetters, false},
};

/// Known names whose pre-tokenizer a .mlt has no flags for.
constexpr std::pair<std::string_view, std::string_view> kInexpressible[] = {
    {"default", "it is what a converter wrote that did not know the tokenizer"},
    {"tekken", "its regex tells upper from lower case"},
    {"gpt-4o", "its regex tells upper from lower case"},
    {"llama4", "its regex tells upper from lower case"},
    {"kimi-k2", "its regex tells Chinese from other letters"},
    {"deepseek-llm", "it cuts by several regexes in turn"},
    {"deepseek-coder", "it cuts by several regexes in turn"},
    {"deepseek-v3", "it cuts by several regexes in turn"},
    {"hunyuan-dense", "it cuts by several regexes in turn"},
    {"falcon", "it cuts at punctuation first, and digits in threes"},
    {"chameleon", "it cuts at punctuation and white space first"},
    {"bloom", "its regex cuts at spaces and sentence marks only"},
    {"poro-chat", "its regex cuts at spaces and sentence marks only"},
    {"gpt3-finnish", "its regex cuts at spaces and sentence marks only"},
    {"viking", "its regex cuts at spaces and sentence marks only"},
    {"stablelm2", "its regex is Qwen 2's, but the name does not say how text is normalized"},
    {"megrez", "its regex is Qwen 2's, but the name does not say how text is normalized"},
    {"mpt", "its regex is GPT-2's, but the name does not say how text is normalized"},
    {"olmo", "its regex is GPT-2's, but the name does not say how text is normalized"},
    {"jais", "its regex is GPT-2's, but the name does not say how text is normalized"},
    {"exaone", "its regex is Starcoder's, but the name does not say how text is normalized"},
    {"minerva-7b", "its regex is Starcoder's, but the name does not say how text is normalized"},
};

enum TokenType : std::int64_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

constexpr PreTokenizer kSentencePiece = {"", 0, true};

bool is_sentencepiece(const GgufTokenizer& source) { return source.model == "llama"; }

const PreTokenizer& pre_tokenizer(const GgufTokenizer& source) {
  if (is_sentencepiece(source)) return kSentencePiece;
  if (source.model != "gpt2")
    fail(ML_E_UNSUPPORTED,
         "{}: tokenizer.ggml.model is \"{}\": only \"gpt2\" (byte-level BPE) and \"llama\" (SentencePiece "
         "BPE) can be converted",
         source.file, printable(source.model));
  for (const PreTokenizer& pre : kPreTokenizers)
    if (pre.name == source.pre) return pre;
  for (const auto& [name, why] : kInexpressible)
    if (name == source.pre)
      fail(ML_E_UNSUPPORTED, "{}: tokenizer.ggml.pre is \"{}\", which a .mlt cannot express: {}", source.file,
           name, why);
  std::vector<std::string_view> known;
  for (const PreTokenizer& pre : kPreTokenizers) known.push_back(pre.name);
  fail(ML_E_UNSUPPORTED, "{}: tokenizer.ggml.pre is \"{}\", an unknown pre-tokenizer; known are {}",
       source.file, printable(source.pre), fmt::join(known, ", "));
}

std::int64_t type_of(const GgufTokenizer& source, std::size_t id) {
  return source.types.empty() ? kNormal : source.types[id];
}

bool is_control(std::int64_t type) { return type == kControl || type == kUnknown; }

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<std::uint8_t>(c) & 0xC0) != 0x80; }));
}

/// Fills result.bytes and result.mlt.tokens.
void convert_tokens(const GgufTokenizer& source, ConvertedTokenizer& result) {
  std::size_t total = 0;
  for (const std::string_view token : source.tokens) total += token.size();
  result.bytes = std::make_unique<char[]>(total + 1);
  char* at = result.bytes.get();
  for (std::size_t id = 0; id < source.tokens.size(); ++id) {
    const std::string_view token = source.tokens[id];
    const std::int64_t type = type_of(source, id);
    if (type < kNormal || type > kByte)
      fail(ML_E_FORMAT, "{}: tokenizer.ggml.token_type of token {} is {}, allowed is 1 to 6", source.file, id,
           type);
    char* const start = at;
    const bool added = is_control(type) || type == kUserDefined;
    std::uint8_t attr = added ? kMltAdded : 0;
    if (is_sentencepiece(source) && type == kByte) {
      const auto byte = byte_piece(token);
      if (!byte)
        fail(ML_E_FORMAT, "{}: token {} is a byte, but \"{}\" is not <0xXX>", source.file, id,
             printable(token));
      *at++ = static_cast<char>(*byte);
      attr = kMltByte;
    } else if (added || (is_sentencepiece(source) && type != kUnused)) {
      at = std::copy(token.begin(), token.end(), at);
    } else if (type != kUnused) {  // an unused token gets no bytes, so that no text can produce it
      at = unprintable(token, at);
    }
    if (at == nullptr)
      fail(ML_E_FORMAT, "{}: token {} has a character that stands for no byte in GPT-2's alphabet: \"{}\"",
           source.file, id, printable(token));
    result.mlt.tokens.push_back({{start, static_cast<std::size_t>(at - start)}, attr});
  }
}

void convert_merges(const GgufTokenizer& source, Mlt& mlt) {
  std::unordered_map<std::string_view, std::uint32_t> ids;
  for (std::size_t id = 0; id < source.tokens.size(); ++id)
    ids.emplace(source.tokens[id], static_cast<std::uint32_t>(id));
  std::string merged;
  for (std::size_t rank = 0; rank < source.merges.size(); ++rank) {
    const std::string_view merge = source.merges[rank];
    const std::size_t space = merge.find(' ');  // the printable characters have none
    const auto id = [&](std::string_view token) {
      const auto it = ids.find(token);
      if (space == std::string_view::npos || it == ids.end())
        fail(ML_E_FORMAT, "{}: tokenizer.ggml.merges: merge {} (\"{}\") is not two tokens that make a third",
             source.file, rank, printable(merge));
      return it->second;
    };
    const std::string_view left = merge.substr(0, space),
                           right = merge.substr(std::min(space, merge.size() - 1) + 1);
    merged.assign(left).append(right);
    mlt.merges.push_back({id(left), id(right), id(merged)});
  }
}

/// SentencePiece has scores instead of merges. Every split of a piece into two pieces is a merge; the higher
/// score comes first, then the longer left part, then the longer right part (in characters), then the lower
/// ids: as transformers' generate_merges ranks them. Llama 2's own tokenizer.json ranks the splits of one
/// piece by their ids alone; no difference in ids was found on 20,575 texts.
void derive_merges(const GgufTokenizer& source, Mlt& mlt) {
  struct Split {
    double score;
    std::size_t left_length, right_length;
    MltMerge merge;
  };
  const auto is_text = [&](std::size_t id) {
    return type_of(source, id) == kNormal || type_of(source, id) == kUserDefined;
  };
  std::unordered_map<std::string_view, std::uint32_t> ids;
  for (std::size_t id = 0; id < source.tokens.size(); ++id)
    if (is_text(id)) ids.emplace(source.tokens[id], static_cast<std::uint32_t>(id));
  std::vector<Split> splits;
  for (std::size_t id = 0; id < source.tokens.size(); ++id) {
    const std::string_view piece = source.tokens[id];
    if (!is_text(id) || ids.at(piece) != id) continue;
    const std::size_t length = characters(piece);
    std::size_t left_length = 0;
    for (std::size_t at = 0; at < piece.size(); ++at) {
      if ((static_cast<std::uint8_t>(piece[at]) & 0xC0) == 0x80) continue;  // within a character
      if (at > 0) {
        const auto left = ids.find(piece.substr(0, at)), right = ids.find(piece.substr(at));
        if (left != ids.end() && right != ids.end())
          splits.push_back({source.scores[id],
                            left_length,
                            length - left_length,
                            {left->second, right->second, static_cast<std::uint32_t>(id)}});
      }
      ++left_length;
    }
  }
  std::sort(splits.begin(), splits.end(), [](const Split& a, const Split& b) {
    const auto key = [](const Split& s) {
      return std::tuple(-s.score, -static_cast<std::int64_t>(s.left_length),
                        -static_cast<std::int64_t>(s.right_length), s.merge.merged, s.merge.left,
                        s.merge.right);
    };
    return key(a) < key(b);
  });
  for (const Split& split : splits) mlt.merges.push_back(split.merge);
}

std::int32_t checked_id(const GgufTokenizer& source, const char* key, std::int64_t id) {
  if (id < -1 || id >= static_cast<std::int64_t>(source.tokens.size()))
    fail(ML_E_FORMAT, "{}: tokenizer.ggml.{} is {}, but there are {} tokens", source.file, key, id,
         source.tokens.size());
  return static_cast<std::int32_t>(id);
}

std::string model_json(const GgufTokenizer& source, const Mlt& mlt, std::vector<std::string>& notes) {
  nlohmann::ordered_json json;
  json["format"] = 1;
  const auto text = [&](const char* key, std::string_view value) {
    if (!value.empty()) json[key] = replace_invalid_utf8(value);
  };
  text("name", source.name);
  text("source", source.source);
  text("license", source.license);
  text("chat_template", source.chat_template);
  note_templates(json, notes);
  std::vector<bool> control(source.tokens.size());
  for (std::size_t id = 0; id < control.size(); ++id) control[id] = is_control(type_of(source, id));
  std::set<std::int32_t> ends;
  for (const std::int64_t id : source.more_ends)
    ends.insert(checked_id(source, "eot_token_id or eom_token_id", id));
  add_token_ids(json, mlt, control, std::move(ends));
  return json.dump(1) + "\n";
}

}  // namespace

GgufTokenizer read_gguf_tokenizer(const Gguf& gguf) {
  GgufTokenizer result;
  result.file = gguf.name;
  const auto texts = [&](std::string_view key) {
    const auto found = gguf.texts(key);
    return found ? std::vector(found->begin(), found->end()) : std::vector<std::string_view>();
  };
  result.model = gguf.text("tokenizer.ggml.model").value_or("");
  result.pre = gguf.text("tokenizer.ggml.pre").value_or("");
  result.tokens = texts("tokenizer.ggml.tokens");
  result.types = gguf.integers("tokenizer.ggml.token_type").value_or(std::vector<std::int64_t>());
  result.merges = texts("tokenizer.ggml.merges");
  if (const auto scores = gguf.numbers("tokenizer.ggml.scores")) {
    result.scores = *scores;
    for (const float score : result.scores)  // a NaN has no rank
      if (!std::isfinite(score))
        fail(ML_E_FORMAT, "{}: tokenizer.ggml.scores has a value that is not finite", gguf.name);
  }
  result.add_space_prefix = gguf.boolean("tokenizer.ggml.add_space_prefix").value_or(true);
  if (result.tokens.empty())
    fail(ML_E_FORMAT, "{}: tokenizer.ggml.tokens is missing or empty: the file has no tokenizer", gguf.name);
  result.bos = gguf.integer("tokenizer.ggml.bos_token_id").value_or(-1);
  result.eos = gguf.integer("tokenizer.ggml.eos_token_id").value_or(-1);
  for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"})
    if (const auto id = gguf.integer(key)) result.more_ends.push_back(*id);
  result.add_bos = gguf.boolean("tokenizer.ggml.add_bos_token");
  result.name = gguf.text("general.name").value_or("");
  result.source = gguf.text("general.source.url")
                      .value_or(gguf.text("general.source.huggingface.repository").value_or(""));
  result.license = gguf.text("general.license").value_or("");
  result.chat_template = gguf.text("tokenizer.chat_template").value_or("");
  return result;
}

ConvertedTokenizer convert_gguf_tokenizer(const GgufTokenizer& source) {
  const PreTokenizer& pre = pre_tokenizer(source);
  if (!source.types.empty() && source.types.size() != source.tokens.size())
    fail(ML_E_FORMAT, "{}: tokenizer.ggml.token_type has {} elements, but there are {} tokens", source.file,
         source.types.size(), source.tokens.size());
  if (is_sentencepiece(source) && source.scores.size() != source.tokens.size())
    fail(ML_E_FORMAT, "{}: tokenizer.ggml.scores has {} elements, but there are {} tokens", source.file,
         source.scores.size(), source.tokens.size());
  ConvertedTokenizer result;
  Mlt& mlt = result.mlt;
  mlt.kind = is_sentencepiece(source) ? MltKind::kSentencePiece : MltKind::kByteLevel;
  mlt.bos = checked_id(source, "bos_token_id", source.bos);
  mlt.eos = checked_id(source, "eos_token_id", source.eos);
  mlt.flags = pre.flags;
  if (is_sentencepiece(source) && !source.add_space_prefix) mlt.flags |= kMltNoPrefix;
  if (mlt.bos >= 0 && source.add_bos.value_or(pre.adds_bos)) mlt.flags |= kMltPrependBos;
  convert_tokens(source, result);
  if (is_sentencepiece(source))
    derive_merges(source, mlt);
  else
    convert_merges(source, mlt);
  result.json = model_json(source, mlt, result.notes);
  return result;
}

}  // namespace krafla
