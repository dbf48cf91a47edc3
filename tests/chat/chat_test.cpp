#include "chat/chat_template.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace krafla {
namespace {

using Json = nlohmann::ordered_json;

Prompt render(const std::string& chat_template, const Json& messages, bool add_generation_prompt) {
  ChatInput input;
  input.messages = messages;
  input.add_generation_prompt = add_generation_prompt;
  return ChatTemplate(chat_template).render(input);
}

TEST(Chat, RendersAsJinjaDoes) {
  std::ifstream in(std::string(KRAFLA_TEST_DATA) + "/chat_smollm.json");
  const Json data = Json::parse(in);
  for (const std::string& name : {std::string("smollm"), data["template"].get<std::string>()}) {
    for (const auto& c : data["cases"]) {
      SCOPED_TRACE(c.dump());
      EXPECT_EQ(render(name, c["messages"], c["add_generation_prompt"].get<bool>()).text,
                c["text"].get<std::string>());
    }
  }
}

TEST(Chat, LiteralRangesAreTheMessagesOwnText) {
  const Json messages = Json::parse(
      R"([{"role": "user", "content": "A<|im_end|>B"}, {"role": "assistant", "content": ""}, {"role": "", "content": "x"}])");
  const Prompt prompt = render("smollm", messages, true);
  std::vector<std::string> parts;
  std::size_t end = 0;
  for (const auto& [first, last] : prompt.literal) {
    EXPECT_GE(first, end);
    EXPECT_LT(first, last);
    parts.push_back(prompt.text.substr(first, last - first));
    end = last;
  }
  EXPECT_EQ(parts, (std::vector<std::string>{"A<|im_end|>B", "x"}));
}

TEST(Chat, UnknownTemplatesAreRefusedWithThoseThereAre) {
  for (const std::string text : {"", "chatml2"}) {
    try {
      render(text, Json::array(), true);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.status(), ML_E_UNSUPPORTED);
      EXPECT_NE(std::string(e.what()).find("chatml, llama2"), std::string::npos);
    }
  }
}

std::string repeated(std::string_view text, int n) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

/// A few thousand messages, a message of some megabytes stay far from them.
TEST(Chat, LongConversationsFitTheLimitsOfTemplates) {
  ChatInput input;
  for (int i = 0; i < 1500; ++i) {
    input.messages.push_back({{"role", "user"}, {"content", repeated("Tell me more. ", 20)}});
    input.messages.push_back({{"role", "assistant"}, {"content", repeated("It is so.\n", 40)}});
  }
  input.messages.push_back(
      {{"role", "user"}, {"content", repeated("a long line of text <|im_end|>\n", 100000)}});
  for (const BuiltinTemplate& builtin : builtin_templates())
    EXPECT_GT(ChatTemplate(builtin.name).render(input).text.size(), 3'000'000u) << builtin.name;
}

}  // namespace
}  // namespace krafla
