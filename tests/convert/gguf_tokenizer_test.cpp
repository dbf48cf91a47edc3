#include "convert/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/mapped_file.h"
#include "tokenizer/tokenizer.h"

namespace krafla {
namespace {

using Ids = std::vector<std::int32_t>;

GgufTokenizer small() {
  GgufTokenizer t;
  t.file = "small.gguf";
  t.model = "gpt2";
  t.pre = "smollm";
  t.tokens = {"<|im_end|>",
              "a",
              "\xC4\xA0",
              "\xC4\xA0"
              "a",
              "\n\n",
              "<unused>",
              "\xC3\xA9"};  // U+0120 is a space, U+00E9 the byte E9
  t.types = {3, 1, 1, 1, 4, 5, 1};
  t.merges = {"\xC4\xA0 a"};
  t.eos = 0;
  t.name = "Small";
  t.license = "apache-2.0";
  return t;
}

ml_status status_of(const GgufTokenizer& source, std::string* message = nullptr) {
  try {
    convert_gguf_tokenizer(source);
  } catch (const Error& e) {
    if (message != nullptr) *message = e.what();
    return e.status();
  }
  return ML_OK;
}

TEST(GgufTokenizer, TokensBecomeBytes) {
  const ConvertedTokenizer converted = convert_gguf_tokenizer(small());
  const Mlt& mlt = converted.mlt;
  EXPECT_EQ(mlt.flags, kMltGpt2Regex | kMltSplitDigits);
  EXPECT_EQ(mlt.bos, -1);
  EXPECT_EQ(mlt.eos, 0);
  EXPECT_EQ(mlt.tokens[0].attr, kMltAdded);
  EXPECT_EQ(mlt.tokens[3].bytes, " a");
  EXPECT_EQ(mlt.tokens[3].attr, 0);
  EXPECT_EQ(mlt.tokens[4].bytes, "\n\n");
  EXPECT_EQ(mlt.tokens[4].attr, kMltAdded);
  EXPECT_EQ(mlt.tokens[5].bytes, "");
  EXPECT_EQ(mlt.tokens[6].bytes, "\xE9");
  EXPECT_EQ(Tokenizer(mlt).encode("a a<|im_end|>\n\n"), (Ids{1, 3, 0, 4}));
  const auto json = nlohmann::json::parse(converted.json);
  EXPECT_EQ(json["format"], 1);
  EXPECT_EQ(json["name"], "Small");
  EXPECT_EQ(json["license"], "apache-2.0");
  EXPECT_EQ(json["end_ids"], Ids{0});
  EXPECT_EQ(json["control_ids"], Ids{0});
  EXPECT_FALSE(json.contains("bos"));
  EXPECT_FALSE(json.contains("chat_template"));
}

TEST(GgufTokenizer, RefusesByName) {
  std::string message;
  GgufTokenizer t = small();
  t.pre = "tekken";
  EXPECT_EQ(status_of(t, &message), ML_E_UNSUPPORTED);
  EXPECT_NE(message.find("tekken"), std::string::npos);
  EXPECT_NE(message.find("upper from lower case"), std::string::npos);  // what is known of it
  t.pre = "no such name";
  EXPECT_EQ(status_of(t, &message), ML_E_UNSUPPORTED);
  EXPECT_NE(message.find("command-r"), std::string::npos);  // the known ones
  t = small();
  t.model = "t5";
  EXPECT_EQ(status_of(t), ML_E_UNSUPPORTED);
  t = small();
  t.model = "llama";  // without scores
  EXPECT_EQ(status_of(t), ML_E_FORMAT);
  t = small();
  t.eos = 7;
  EXPECT_EQ(status_of(t), ML_E_FORMAT);
  t = small();
  t.types.pop_back();
  EXPECT_EQ(status_of(t), ML_E_FORMAT);
  t = small();
  t.types[1] = 0;
  EXPECT_EQ(status_of(t), ML_E_FORMAT);
  t = small();
  t.tokens[1] = "\xE2\x82\xAC";
  EXPECT_EQ(status_of(t), ML_E_FORMAT);
  for (const char* merge : {"aa", "", " ", "a ", " a", "a b", "a a a", "a a"}) {
    t = small();
    t.merges = {merge};
    EXPECT_EQ(status_of(t), ML_E_FORMAT) << merge;
  }
}

TEST(GgufTokenizer, NamesOfPreTokenizersAreFlags) {
  const std::pair<const char*, std::uint32_t> names[] = {
      {"gpt-2", kMltGpt2Regex},
      {"starcoder", kMltGpt2Regex | kMltSplitDigits},
      {"codeshell", kMltGpt2Regex | kMltSplitDigits},
      {"command-r", kMltGpt2Regex | kMltSplitDigits | kMltNfc},
      {"falcon3", kMltIgnoreMerges},
      {"dbrx", 0},
      {"chatglm-bpe", 0},
      {"qwen2", kMltNfc | kMltSingleDigits},
      {"qwen35", kMltNfc | kMltSingleDigits | kMltMarksAreLetters}};
  for (const auto& [name, flags] : names) {
    GgufTokenizer t = small();
    t.pre = name;
    EXPECT_EQ(convert_gguf_tokenizer(t).mlt.flags, flags) << name;
  }
}

TEST(GgufTokenizer, BosFollowsTheFileOrThePreTokenizer) {
  GgufTokenizer t = small();
  t.bos = 0;
  EXPECT_EQ(convert_gguf_tokenizer(t).mlt.flags & kMltPrependBos, 0u);
  t.add_bos = true;
  EXPECT_EQ(convert_gguf_tokenizer(t).mlt.flags & kMltPrependBos, kMltPrependBos);
  t.add_bos.reset();
  t.pre = "llama-bpe";
  EXPECT_EQ(convert_gguf_tokenizer(t).mlt.flags, kMltPrependBos | kMltIgnoreMerges);
}

// The real model's tokenizer is the one of the conformance files, byte for byte. Skipped where the model is
// not there.
TEST(GgufTokenizer, SmolLM2GivesTheGoldenTokenizer) {
  const char* path = std::getenv("KRAFLA_SMOLLM2_GGUF");
  if (path == nullptr) GTEST_SKIP() << "KRAFLA_SMOLLM2_GGUF names no file";
  const MappedFile file(path);
  const Gguf gguf = parse_gguf(file.bytes(), path);
  const ConvertedTokenizer converted = convert_gguf_tokenizer(read_gguf_tokenizer(gguf));
  const std::string out = testing::TempDir() + "/gguf_tokenizer.mlt";
  write_mlt(out, converted.mlt);
  const auto slurp = [](const std::string& name) {
    std::ifstream in(name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  EXPECT_EQ(slurp(out), slurp(std::string(KRAFLA_TEST_DATA) + "/tokenizers/smollm2.mlt"));
  const auto json = nlohmann::json::parse(converted.json);
  EXPECT_EQ(json["end_ids"], (Ids{0, 2}));
  EXPECT_EQ(json["control_ids"].size(), 17u);
  EXPECT_NE(json["chat_template"].get<std::string>().find("named SmolLM"), std::string::npos);
}

}  // namespace
}  // namespace krafla
