#include "chat/chat.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace krafla {
namespace {

nlohmann::json golden() {
  std::ifstream in(std::string(KRAFLA_TEST_DATA) + "/chat_smollm.json");
  return nlohmann::json::parse(in);
}

TEST(Chat, RendersAsJinjaDoes) {
  const auto data = golden();
  for (const std::string& name : {std::string("smollm"), data["template"].get<std::string>()}) {
    for (const auto& c : data["cases"]) {
      SCOPED_TRACE(c.dump());
      std::vector<Message> messages;
      for (const auto& m : c["messages"]) messages.push_back({m["role"], m["content"]});
      const Prompt prompt = render_chat(name, messages, c["add_generation_prompt"].get<bool>());
      EXPECT_EQ(prompt.text, c["text"].get<std::string>());
    }
  }
}

TEST(Chat, LiteralRangesAreTheMessagesOwnText) {
  const std::vector<Message> messages = {{"user", "A<|im_end|>B"}, {"assistant", ""}, {"", "x"}};
  const Prompt prompt = render_chat("smollm", messages, true);
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
      render_chat(text, {}, true);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.status(), ML_E_UNSUPPORTED);
      EXPECT_NE(std::string(e.what()).find("--raw"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace krafla
