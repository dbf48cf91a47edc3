// A model opened with its JSON and tokenizer, and the prompts that conversations with it become.
#include "engine/conversation.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "base/error.h"
#include "kernels/context.h"

namespace krafla {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const std::string kData = KRAFLA_TEST_DATA;

/// A folder with a small model, a tokenizer of ten tokens and a JSON.
class ConversationTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    fs::copy_file(kData + "/models/mistral_swa-q8.mlb", folder_ / "m.mlb");
    fs::copy_file(kData + "/good/sp.mlt", folder_ / "m.mlt");
    write_json(Json::object());
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write_json(const Json& json) { std::ofstream(folder_ / "m.json") << json.dump(); }
  LoadedModel load() { return LoadedModel(name_, context_.threads); }
  LoadedModel load_all() {
    LoadedModel loaded = load();
    loaded.load_tokenizer();
    return loaded;
  }
  static ml_status status_of(const std::function<void()>& action, std::string* message = nullptr) {
    try {
      action();
    } catch (const Error& e) {
      if (message != nullptr) *message = e.what();
      return e.status();
    }
    return ML_OK;
  }

  fs::path folder_ = fs::temp_directory_path() / ("krafla-conversation-" + std::to_string(::getpid()));
  std::string name_ = (folder_ / "m").string();
  Context context_{choose_kernels(nullptr), 1};
};

TEST_F(ConversationTest, AModelNeedsNoTokenizer) {
  fs::remove(folder_ / "m.mlt");
  fs::remove(folder_ / "m.json");
  LoadedModel loaded = load();
  EXPECT_FALSE(loaded.tokenizer.has_value());
  std::string message;
  EXPECT_EQ(status_of([&] { loaded.load_tokenizer(); }, &message), ML_E_IO);
  EXPECT_NE(message.find("m.mlt"), std::string::npos) << message;
}

TEST_F(ConversationTest, EndIdsAreTheJsonsAndTheTokenizers) {
  write_json({{"end_ids", {5, 7}}});
  EXPECT_EQ(load_all().end_ids, (std::vector<std::int32_t>{5, 7, 2}));
  write_json({{"end_ids", {5, 10}}});
  std::string message;
  EXPECT_EQ(status_of([&] { load_all(); }, &message), ML_E_FORMAT);
  EXPECT_NE(message.find("0 to 9"), std::string::npos) << message;
}

TEST_F(ConversationTest, ControlIdsAreThoseOfTheJsonBesideTheTokenizer) {
  const auto is_control = [&](const std::string& name) { return open_tokenizer(name).is_control(1); };
  write_json({{"control_ids", {0, 1}}});
  fs::copy_file(folder_ / "m.mlt", folder_ / "other.mlt");
  std::ofstream(folder_ / "other.json") << R"({"control_ids": [0]})";
  for (const char* suffix : {"", ".mlt", ".mlb", ".json"}) EXPECT_TRUE(is_control(name_ + suffix)) << suffix;
  LoadedModel loaded = load();
  loaded.load_tokenizer((folder_ / "other").string());
  EXPECT_FALSE(loaded.tokenizer->is_control(1));
  EXPECT_EQ(loaded.tokenizer_file, (folder_ / "other.mlt").string());
}

TEST_F(ConversationTest, ATokenizerOfMoreTokensThanTheModelIsRefused) {
  LoadedModel loaded = load();
  std::string message;
  EXPECT_EQ(status_of([&] { loaded.load_tokenizer(kData + "/tokenizers/smollm2"); }, &message), ML_E_SHAPE);
  EXPECT_NE(message.find("n_vocab is 49152"), std::string::npos) << message;
}

TEST_F(ConversationTest, TheTemplateForToolsIsUsedWithTools) {
  write_json({{"chat_template", {{"default", "{{ 'a' }}"}, {"tool_use", "ab{{ tools | length }}"}}},
              {"tools", "hermes"}});
  const LoadedModel loaded = load_all();
  const ConversationFormat format(loaded), other(loaded, "b{{ messages | length }}");
  ChatInput input;
  const ChatPrompt plain = format.encode(input);
  EXPECT_EQ(plain.ids, loaded.tokenizer->encode("a", {.add_bos = false}));
  EXPECT_EQ(plain.style.tools, ToolFormat::kNone);
  EXPECT_TRUE(plain.visible_control_tokens.empty());
  EXPECT_EQ(status_of([&] { other.read_tools({{{"name", "f"}}}, "T"); }), ML_E_ARG);
  input.tools = format.read_tools({{{"name", "f"}}}, "T");
  const ChatPrompt tools = format.encode(input);
  EXPECT_EQ(tools.ids, loaded.tokenizer->encode("ab1", {.add_bos = false}));
  EXPECT_EQ(tools.style.tools, ToolFormat::kHermes);
  EXPECT_EQ(tools.visible_control_tokens, (std::vector<std::string>{"<tool_call>", "</tool_call>"}));
}

TEST_F(ConversationTest, WhatARequestGetsWrongIsNamed) {
  write_json({{"chat_template", "{{ tools }}"}});
  const LoadedModel loaded = load_all();
  const ConversationFormat format(loaded);
  std::string message;
  EXPECT_EQ(status_of([&] { format.read_messages({{{"role", 1}}}, false, "M"); }, &message), ML_E_FORMAT);
  EXPECT_TRUE(message.starts_with("M: messages[0].role")) << message;
  for (const Json& tools : {Json::array(), Json::object(), Json::array({1})})
    EXPECT_EQ(status_of([&] { format.read_tools(tools, "T"); }), ML_E_FORMAT) << tools;
  write_json(Json::object());
  const LoadedModel bare = load_all();
  EXPECT_FALSE(ConversationFormat(bare).has_template(false));
  EXPECT_EQ(status_of([&] { ConversationFormat(bare).encode({}); }), ML_E_ARG);
}

TEST_F(ConversationTest, ReasoningMayBeginInThePrompt) {
  write_json(
      {{"chat_template", "a<think>{{ nl }}"}, {"reasoning", {{"open", "<think>"}, {"close", "</think>"}}}});
  const LoadedModel loaded = load_all();
  ChatInput input;
  EXPECT_TRUE(ConversationFormat(loaded).encode(input).style.reasoning_opened);
  EXPECT_FALSE(ConversationFormat(loaded, "{{ 'a' }}").encode(input).style.reasoning_opened);
}

TEST(SamplingSettings, TheRequestWinsOverTheModelAndThatOverTheDefaults) {
  SamplingOptions options;
  options.seed = 7;
  const SamplingOptions out =
      with_settings(options, {.temperature = 0.0f}, {.temperature = 0.3f, .top_k = 5});
  EXPECT_EQ(out.temperature, 0.0f);
  EXPECT_EQ(out.top_k, 5);
  EXPECT_EQ(out.top_p, 0.95f);
  EXPECT_EQ(out.min_p, 0.05f);
  EXPECT_EQ(out.repetition_penalty, 1.0f);
  EXPECT_EQ(out.seed, 7u);
}

}  // namespace
}  // namespace krafla
