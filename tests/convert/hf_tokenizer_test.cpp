#include "convert/hf_tokenizer.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace krafla {
namespace {

using Ids = std::vector<std::int32_t>;
using Json = nlohmann::json;

const Json kByteLevel = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
const std::string kMark = "\xE2\x96\x81";

Json added(int id, const char* text, bool special) {
  return {{"id", id}, {"content", text}, {"special", special}};
}

/// a, b, space, "ab", " a" and two added tokens.
Json byte_level() {
  return {{"added_tokens", Json::array({added(5, "<|im_end|>", true), added(6, "<think>", false),
                                        added(7, "</think>", false)})},
          {"pre_tokenizer", kByteLevel},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"vocab",
             {{"a", 0},
              {"b", 1},
              {"\xC4\xA0", 2},
              {"ab", 3},
              {"\xC4\xA0"
               "a",
               4}}},
            {"merges", {"a b", "\xC4\xA0 a"}}}}};
}

Json sentencepiece() {
  Json vocab = {{kMark, 256}, {"a", 257}, {kMark + "a", 258}};
  for (int b = 0; b < 256; ++b) vocab[fmt::format("<0x{:02X}>", b)] = b;
  return {
      {"added_tokens", Json::array({added(259, "<s>", true)})},
      {"pre_tokenizer",
       {{"type", "Metaspace"}, {"replacement", kMark}, {"prepend_scheme", "first"}, {"split", false}}},
      {"decoder",
       {{"type", "Sequence"},
        {"decoders", Json::array({{{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}},
                                  {{"type", "ByteFallback"}},
                                  {{"type", "Fuse"}},
                                  {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}})}}},
      {"model",
       {{"type", "BPE"},
        {"byte_fallback", true},
        {"vocab", vocab},
        {"merges", Json::array({{kMark, "a"}})}}}};
}

ConvertedTokenizer convert(const Json& tokenizer) {
  HfTokenizer source;
  source.file = "t/tokenizer.json";
  source.tokenizer = tokenizer.dump();
  return convert_hf_tokenizer(source);
}

void expect_refused(const Json& tokenizer, ml_status status, const std::string& mention) {
  try {
    convert(tokenizer);
    FAIL() << mention;
  } catch (const Error& e) {
    EXPECT_EQ(e.status(), status) << e.what();
    EXPECT_NE(std::string(e.what()).find(mention), std::string::npos) << e.what();
  }
}

TEST(HfTokenizer, TokensAndMergesOfBothForms) {
  Json pairs = byte_level();
  pairs["model"]["merges"] = Json::array({Json::array({"a", "b"}), Json::array({"\xC4\xA0", "a"})});
  for (const Json& json : {byte_level(), pairs}) {
    const Mlt mlt = convert(json).mlt;
    EXPECT_EQ(mlt.kind, MltKind::kByteLevel);
    EXPECT_EQ(mlt.flags, kMltGpt2Regex);
    ASSERT_EQ(mlt.tokens.size(), 8u);
    EXPECT_EQ(mlt.tokens[5].attr, kMltAdded);
    ASSERT_EQ(mlt.merges.size(), 2u);
    EXPECT_EQ(mlt.merges[1].merged, 4u);
  }
  const ConvertedTokenizer converted = convert(byte_level());
  EXPECT_EQ(converted.mlt.tokens[4].bytes, " a");
  EXPECT_EQ(Tokenizer(converted.mlt).encode("ab a<|im_end|>"), (Ids{3, 4, 5}));
}

TEST(HfTokenizer, WhatIsDroppedOfTheGenerationConfigIsNoted) {
  HfTokenizer source;
  source.file = "t/tokenizer.json";
  source.tokenizer = byte_level().dump();
  const auto notes_of = [&](const std::string& generation) {
    source.generation_config = generation;
    const ConvertedTokenizer converted = convert_hf_tokenizer(source);
    EXPECT_EQ(Json::parse(converted.json).contains("sampling"),
              generation.find("temperature\": 0.5") != std::string::npos)
        << generation;
    return converted.notes;
  };
  using Notes = std::vector<std::string>;
  EXPECT_EQ(notes_of(R"({"temperature": 0.5, "top_k": null, "future": []})"), Notes{});
  EXPECT_EQ(notes_of(R"({"do_sample": false, "temperature": -1})"), Notes{});  // nothing of it is used
  const std::string where = "generation_config.json: ";
  for (const auto& [key, value, allowed] :
       {std::array{"temperature", "-1", "a number from 0 to 100"},
        {"temperature", "\"1\"", "a number from 0 to 100"},
        {"top_p", "0", "a number above 0, at most 1"},
        {"top_p", "1.5", "a number above 0, at most 1"},
        {"top_k", "-1", "an integer from 0 to 16777216"},
        {"top_k", "20.5", "an integer from 0 to 16777216"},
        {"top_k", "18446744073709551615", "an integer from 0 to 16777216"},
        {"min_p", "[0]", "a number from 0 to 1"},
        {"repetition_penalty", "0", "a number above 0, at most 100"},
        {"repetition_penalty", "true", "a number above 0, at most 100"},
        {"do_sample", "\"no\"", "true or false"}})
    EXPECT_EQ(notes_of(fmt::format(R"({{"{}": {}}})", key, value)),
              Notes{fmt::format("{}{} is {}, which is not used; allowed is {}", where, key, value, allowed)});
  EXPECT_EQ(notes_of(R"({"top_k": -1, "temperature": 0.5, "min_p": 2})").size(), 2u);
  EXPECT_EQ(notes_of(R"({"eos_token_id": [5, 99]})"),
            Notes{where + "eos_token_id 99 is not used; the tokenizer's ids are 0 to 7"});
}

TEST(HfTokenizer, ATemplateThatCannotBeUsedIsNotedWithItsLine) {
  HfTokenizer source;
  source.file = "t/tokenizer.json";
  source.tokenizer = byte_level().dump();
  source.chat_template = "{{ messages }}";
  source.more_templates = {{"rag", "{% if documents %}{% endif %}"}};
  EXPECT_TRUE(convert_hf_tokenizer(source).notes.empty());
  source.more_templates = {{"rag", "\n\n{% if documents %}"}, {"tool_use", "\n{{ }}"}};
  const ConvertedTokenizer two = convert_hf_tokenizer(source);
  ASSERT_EQ(two.notes.size(), 2u);
  EXPECT_NE(two.notes[0].find("chat_template \"rag\" cannot be used"), std::string::npos) << two.notes[0];
  EXPECT_NE(two.notes[1].find("chat_template \"tool_use\" cannot be used"), std::string::npos)
      << two.notes[1];
  EXPECT_NE(two.notes[1].find("chat template, line 2: "), std::string::npos) << two.notes[1];
  EXPECT_EQ(Json::parse(two.json)["chat_template"]["tool_use"], "\n{{ }}");  // as it is
  source.more_templates.clear();
  source.chat_template = "{% for m in messages %}\n{% frob \x01 %}";
  const ConvertedTokenizer one = convert_hf_tokenizer(source);
  ASSERT_EQ(one.notes.size(), 1u);
  EXPECT_NE(one.notes[0].find("chat template, line 2: "), std::string::npos) << one.notes[0];
  EXPECT_EQ(one.notes[0].find_first_of("\n\x01"), std::string::npos);
}

TEST(HfTokenizer, RefusesAddedTokenRulesByName) {
  for (const char* rule : {"single_word", "lstrip", "rstrip"}) {
    Json json = byte_level();
    json["added_tokens"][0][rule] = true;
    expect_refused(json, ML_E_UNSUPPORTED, rule);
  }
  Json json = byte_level();
  json["normalizer"] = {{"type", "NFC"}};
  json["added_tokens"][0]["normalized"] = true;
  expect_refused(json, ML_E_UNSUPPORTED, "normalized text");
}

TEST(HfTokenizer, RefusesModelsAndRulesByName) {
  for (const char* type : {"Unigram", "WordPiece", "WordLevel"}) {
    Json json = byte_level();
    json["model"]["type"] = type;
    expect_refused(json, ML_E_UNSUPPORTED, type);
  }
  const std::vector<std::pair<Json::json_pointer, Json>> changes = {
      {"/normalizer"_json_pointer, {{"type", "Lowercase"}}},
      {"/pre_tokenizer/add_prefix_space"_json_pointer, true},
      {"/decoder/type"_json_pointer, "WordPiece"},
      {"/post_processor"_json_pointer, {{"type", "BertProcessing"}}},
      {"/model/continuing_subword_prefix"_json_pointer, "##"},
      {"/model/end_of_word_suffix"_json_pointer, "</w>"},
      {"/model/dropout"_json_pointer, 0.1},
      {"/model/unk_token"_json_pointer, "<unk>"},
      {"/model/byte_fallback"_json_pointer, true},
  };
  for (const auto& [where, value] : changes) {
    Json json = byte_level();
    json[where] = value;
    expect_refused(json, ML_E_UNSUPPORTED, where.to_string().substr(1, 5));
  }
  Json json = byte_level();
  json["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "[a-z]+"}}}, {"behavior", "Isolated"}, {"invert", false}};
  expect_refused(json, ML_E_UNSUPPORTED, "pre_tokenizer");
  json["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", Json::array({json["pre_tokenizer"], kByteLevel})}};
  json["pre_tokenizer"]["pretokenizers"][1]["use_regex"] = false;
  expect_refused(json, ML_E_UNSUPPORTED, "[a-z]+");
}

TEST(HfTokenizer, BrokenFilesAreFormatErrors) {
  const std::vector<std::pair<Json::json_pointer, Json>> changes = {
      {"/model/vocab"_json_pointer, Json::array()},
      {"/model/merges"_json_pointer, 1},
      {"/model/vocab/a"_json_pointer, -1},
      {"/model/vocab/a"_json_pointer, 1},
      {"/model/vocab/a"_json_pointer, 2000000000},
      {"/model/merges/0"_json_pointer, "a c"},
      {"/model/merges/0"_json_pointer, "a"},
      {"/model/merges/0"_json_pointer, {"a", "b", "c"}},
      {"/added_tokens"_json_pointer, 3},
      {"/added_tokens/0/id"_json_pointer, "x"},
      {"/added_tokens/0/id"_json_pointer, 3},
      {"/model/vocab"_json_pointer, {{"\xE2\x82\xAC", 0}}},
      {"/added_tokens/0/special"_json_pointer, "x"},
      {"/model"_json_pointer, nullptr},
      {"/pre_tokenizer"_json_pointer, {{"type", 1}}}};
  for (const auto& [where, value] : changes) {
    Json json = byte_level();
    json[where] = value;
    expect_refused(json, ML_E_FORMAT, "tokenizer.json");
  }
  HfTokenizer source;
  source.file = "t/tokenizer.json";
  for (const char* text : {"", "{", "[]", "{}"}) {
    source.tokenizer = text;
    EXPECT_THROW(convert_hf_tokenizer(source), Error) << text;
  }
}

TEST(HfTokenizer, TheBesideFilesMakeTheJson) {
  HfTokenizer source;
  source.file = "t/tokenizer.json";
  source.name = "Small";
  source.tokenizer = byte_level().dump();
  source.tokenizer_config = R"({"eos_token": {"content": "<|im_end|>"}, "chat_template": "one"})";
  source.generation_config =
      R"({"eos_token_id": [5, 1], "do_sample": true, "temperature": 0.5, "top_k": 20, "top_p": null})";
  source.config = R"({"eos_token_id": 0})";
  Json json = Json::parse(convert_hf_tokenizer(source).json);
  EXPECT_EQ(json["format"], 1);
  EXPECT_EQ(json["name"], "Small");
  EXPECT_EQ(json["chat_template"], "one");
  EXPECT_EQ(json["end_ids"], (Ids{0, 1, 5}));
  EXPECT_EQ(json["control_ids"], Ids{5});
  EXPECT_EQ(json["sampling"], (Json{{"temperature", 0.5}, {"top_k", 20}}));
  EXPECT_EQ(json["reasoning"], (Json{{"open", "<think>"}, {"close", "</think>"}}));
  EXPECT_EQ(convert_hf_tokenizer(source).mlt.eos, 5);

  source.tokenizer_config =
      R"({"chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]})";
  source.generation_config = R"({"do_sample": false, "temperature": 0.5})";
  json = Json::parse(convert_hf_tokenizer(source).json);
  EXPECT_EQ(json["chat_template"], (Json{{"default", "d"}, {"tool_use", "t"}}));
  EXPECT_FALSE(json.contains("sampling"));
  source.chat_template = "jinja file";
  EXPECT_EQ(Json::parse(convert_hf_tokenizer(source).json)["chat_template"], "jinja file");
  source.more_templates = {{"rag", "r"}};
  EXPECT_EQ(Json::parse(convert_hf_tokenizer(source).json)["chat_template"],
            (Json{{"default", "jinja file"}, {"rag", "r"}}));
  source.chat_template.clear();
  source.tokenizer_config = R"({"chat_template": 3})";
  EXPECT_THROW(convert_hf_tokenizer(source), Error);
}

TEST(HfTokenizer, BosAndEosThatAreNoTokensAreErrors) {
  for (const char* key : {"bos_token", "eos_token"})
    for (const bool in_map : {false, true}) {
      HfTokenizer source;
      source.file = "t/tokenizer.json";
      source.tokenizer = byte_level().dump();
      (in_map ? source.special_tokens_map : source.tokenizer_config) = Json{{key, "<nowhere>"}}.dump();
      try {
        convert_hf_tokenizer(source);
        ADD_FAILURE() << key;
      } catch (const Error& e) {
        const std::string message = e.what();
        EXPECT_EQ(e.status(), ML_E_FORMAT);
        for (const char* mention :
             {key, "<nowhere>", in_map ? "special_tokens_map.json" : "tokenizer_config.json"})
          EXPECT_NE(message.find(mention), std::string::npos) << message;
      }
    }
  HfTokenizer source;  // a token beyond the model's rows is known, and left out with them
  source.file = "t/tokenizer.json";
  source.tokenizer = byte_level().dump();
  source.tokenizer_config = R"({"bos_token": "</think>", "eos_token": null})";
  EXPECT_EQ(convert_hf_tokenizer(source, 7).mlt.bos, -1);
}

TEST(HfTokenizer, BosComesFromThePostProcessor) {
  Json json = byte_level();
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", Json::array({{{"SpecialToken", {{"id", "x"}}}}, {{"Sequence", {{"id", "A"}}}}})},
      {"special_tokens", {{"x", {{"ids", {5}}, {"tokens", {"<|im_end|>"}}}}}}};
  const Mlt mlt = convert(json).mlt;
  EXPECT_EQ(mlt.bos, 5);
  EXPECT_EQ(mlt.flags, kMltGpt2Regex | kMltPrependBos);
  json["post_processor"]["single"].push_back(json["post_processor"]["single"][0]);  // after the text too
  expect_refused(json, ML_E_UNSUPPORTED, "post_processor");
}

TEST(HfTokenizer, MetaspaceSchemes) {
  EXPECT_EQ(convert(sentencepiece()).mlt.flags, kMltPrefixAtStart);
  Json json = sentencepiece();
  json["pre_tokenizer"]["prepend_scheme"] = "never";
  expect_refused(json, ML_E_UNSUPPORTED, "decoder");  // which takes a space away that nobody put there
  json["decoder"]["decoders"].erase(3);
  EXPECT_EQ(convert(json).mlt.flags, kMltNoPrefix);
  json = sentencepiece();
  json["pre_tokenizer"]["prepend_scheme"] = "always";
  expect_refused(json, ML_E_UNSUPPORTED, "prefix");
  json = sentencepiece();
  json["model"]["vocab"].erase("<0x41>");
  json["model"]["vocab"]["x"] = 0x41;
  expect_refused(json, ML_E_UNSUPPORTED, "<0x41>");
  json = sentencepiece();
  json["pre_tokenizer"] = nullptr;
  json["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       Json::array({{{"type", "Prepend"}, {"prepend", kMark}},
                    {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMark}}})}};
  const ConvertedTokenizer converted = convert(json);
  EXPECT_EQ(converted.mlt.flags, 0u);
  EXPECT_EQ(converted.mlt.tokens[0x41].attr, kMltByte);
  EXPECT_EQ(converted.mlt.tokens[0x41].bytes, "A");
  EXPECT_EQ(Tokenizer(converted.mlt).encode("a a<s>aA"), (Ids{258, 258, 259, 258, 0x41}));
}

TEST(HfTokenizer, AddedTokensBeyondTheModelAreLeftOut) {
  HfTokenizer source;
  source.file = "t/tokenizer.json";
  source.tokenizer = byte_level().dump();
  EXPECT_EQ(convert_hf_tokenizer(source, 7).mlt.tokens.size(), 7u);
  EXPECT_FALSE(Json::parse(convert_hf_tokenizer(source, 7).json).contains("reasoning"));
}

}  // namespace
}  // namespace krafla
