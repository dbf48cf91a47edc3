#include "engine/conversation.h"

#include <algorithm>

#include "base/error.h"
#include "chat/messages.h"

namespace krafla {
namespace {

using Json = nlohmann::ordered_json;

SpecialTokens special_tokens(const LoadedModel& loaded) {
  const Tokenizer& tokenizer = *loaded.tokenizer;
  const auto text_of = [&](std::int32_t id) {
    return id < 0 ? std::string() : std::string(tokenizer.token_bytes(id));
  };
  return {text_of(loaded.info.bos.value_or(tokenizer.bos())), text_of(tokenizer.eos())};
}

}  // namespace

ConversationFormat::ConversationFormat(const LoadedModel& loaded, const std::string& chat_template)
    : loaded_(loaded) {
  const SpecialTokens tokens = special_tokens(loaded);
  const std::string& text = chat_template.empty() ? loaded.info.chat_template : chat_template;
  if (!text.empty()) template_.emplace(text, tokens);
  if (chat_template.empty() && !loaded.info.tool_template.empty())
    tool_template_.emplace(loaded.info.tool_template, tokens);
}

const ChatTemplate* ConversationFormat::find(bool tools) const {
  if (tools && tool_template_) return &*tool_template_;
  return template_ ? &*template_ : nullptr;
}

const ChatTemplate& ConversationFormat::at(bool tools) const {
  const ChatTemplate* found = find(tools);
  if (found == nullptr) fail(ML_E_ARG, "{}: has no chat template", loaded_.files.json);
  return *found;
}

Json ConversationFormat::read_messages(Json messages, bool tools, std::string_view name) const {
  if (const std::string fault = find_fault(messages); !fault.empty())
    fail(ML_E_FORMAT, "{}: {}", name, fault);
  if (!at(tools).takes_parts()) join_parts(messages);
  return messages;
}

Json ConversationFormat::read_tools(Json tools, std::string_view name) const {
  if (!at(true).mentions("tools")) fail(ML_E_ARG, "{}: the chat template takes no tools", name);
  const bool objects = tools.is_array() &&
                       std::all_of(tools.begin(), tools.end(), [](const Json& t) { return t.is_object(); });
  if (!objects || tools.empty())
    fail(ML_E_FORMAT, "{}: is not a JSON array of functions, each an object", name);
  return tools;
}

ChatPrompt ConversationFormat::encode(const ChatInput& input) const {
  const bool tools = !input.tools.is_null();
  const Prompt prompt = at(tools).render(input);
  ChatPrompt out;
  out.ids = loaded_.tokenizer->encode(prompt.text, {.add_bos = false, .literal = prompt.literal});
  out.style = answer_style(prompt, tools);
  out.visible_control_tokens = answer_markers(out.style);
  return out;
}

/// Calls are looked for only where tools were given. A template may have opened the reasoning itself.
AnswerStyle ConversationFormat::answer_style(const Prompt& prompt, bool tools) const {
  const ModelInfo& info = loaded_.info;
  AnswerStyle style{info.reasoning_open, info.reasoning_close, false,
                    tools ? tool_format(info.tools) : ToolFormat::kNone};
  const std::string_view text =
      std::string_view(prompt.text).substr(0, prompt.text.find_last_not_of(" \n") + 1);
  style.reasoning_opened = !style.reasoning_open.empty() && text.ends_with(style.reasoning_open);
  return style;
}

}  // namespace krafla
