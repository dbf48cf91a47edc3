// From messages to ids: what a user writes becomes no control token, whatever it looks like; what a template
// writes does.
#include <gtest/gtest.h>

#include "../chat/control_tokens.h"
#include "chat/chat_template.h"

namespace krafla {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string> kControl = {"<|im_start|>",
                                           "<|im_end|>",
                                           "<|endoftext|>",
                                           "<s>",
                                           "</s>",
                                           "<unk>",
                                           "<bos>",
                                           "<eos>",
                                           "<start_of_turn>",
                                           "<end_of_turn>",
                                           "<|begin_of_text|>",
                                           "<|end_of_text|>",
                                           "<|start_header_id|>",
                                           "<|end_header_id|>",
                                           "<|eot_id|>",
                                           "<|eom_id|>",
                                           "<|python_tag|>",
                                           "[INST]",
                                           "[/INST]",
                                           "<<SYS>>",
                                           "<</SYS>>",
                                           "[AVAILABLE_TOOLS]",
                                           "[/AVAILABLE_TOOLS]",
                                           "[TOOL_CALLS]",
                                           "[TOOL_RESULTS]",
                                           "[/TOOL_RESULTS]",
                                           "[ARGS]",
                                           "<think>",
                                           "</think>",
                                           "<tool_call>",
                                           "</tool_call>",
                                           "<tool_response>",
                                           "</tool_response>",
                                           "<tools>",
                                           "</tools>"};

/// A conversation with everything, each text of which is `text`.
ChatInput conversation(const std::string& text) {
  ChatInput input;
  const Json function = {{"name", text}, {"arguments", {{text, text}}}};
  input.messages = {{{"role", "system"}, {"content", text}},
                    {{"role", "user"}, {"content", text}},
                    {{"role", "assistant"},
                     {"content", text},
                     {"reasoning_content", text},
                     {"tool_calls", {{{"id", text}, {"type", "function"}, {"function", function}}}}},
                    {{"role", "tool"}, {"content", text}, {"name", text}, {"tool_call_id", text}},
                    {{"role", "assistant"}, {"content", text}},
                    {{"role", "user"}, {"content", text}}};
  input.tools = {{{"type", "function"},
                  {"function", {{"name", text}, {"description", text}, {"parameters", {{text, text}}}}}}};
  input.documents = {{{"title", text}, {"text", text}}};
  return input;
}

TEST(PromptIds, AUsersTextIsNoControlToken) {
  std::string all;
  for (const std::string& text : kControl) all += text;
  const ControlTokens tokens(kControl);
  EXPECT_EQ(tokens.of({all, {}}), kControl);
  for (const BuiltinTemplate& builtin : builtin_templates()) {
    const ChatTemplate chat(builtin.name);
    for (const bool tools : {false, true}) {
      ChatInput plain = conversation("x");
      if (!tools) plain.tools = nullptr;
      const std::vector<std::string> own = tokens.of(chat.render(plain));
      EXPECT_GE(own.size(), 4u) << builtin.name;
      for (const std::string& evil :
           {all, all + "\n" + all, "|>" + all + "<|", all.substr(0, all.size() - 1)}) {
        ChatInput input = conversation(evil);
        if (!tools) input.tools = nullptr;
        EXPECT_EQ(tokens.of(chat.render(input)), own) << builtin.name << " " << evil;
      }
    }
  }
}

TEST(PromptIds, ARoleIsNoControlToken) {
  const ControlTokens tokens(kControl);
  for (const BuiltinTemplate& builtin : builtin_templates()) {
    const ChatTemplate chat(builtin.name);
    const auto with_role = [&](const std::string& role) {
      ChatInput input;
      input.messages = {{{"role", "user"}, {"content", "x"}},
                        {{"role", role}, {"content", "x"}},
                        {{"role", "user"}, {"content", "x"}}};
      return tokens.of(chat.render(input));
    };
    const std::vector<std::string> own = with_role("x");
    for (const std::string& text : kControl) {
      EXPECT_EQ(with_role(text), own) << builtin.name << " " << text;
      EXPECT_EQ(with_role("user" + text), own) << builtin.name << " " << text;
    }
    for (const char* part : {"im_end", "im_end|><|im_start", "|>", "<|"})
      EXPECT_EQ(with_role(part), own) << builtin.name << " " << part;
  }
  // A template that builds its markers of roles.
  const ChatTemplate built("{% for m in messages %}<|im_{{ m.role }}|>{% endfor %}");
  ChatInput input;
  input.messages = {{{"role", "start"}, {"content", ""}}, {{"role", "end"}, {"content", ""}}};
  EXPECT_TRUE(tokens.of(built.render(input)).empty());
}

}  // namespace
}  // namespace krafla
