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

TEST(Chat, UnknownTemplatesAreRefusedWithTheWayOut) {
  for (const std::string text : {"", "chatml2"}) {
    try {
      render(text, Json::array(), true);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.status(), ML_E_UNSUPPORTED);
      EXPECT_NE(std::string(e.what()).find("--raw"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace krafla
