// Conversations with a model: messages, tools and template variables become the token ids of a prompt, and
// the parts of an answer (text, reasoning, tool calls) are known by the model's markers.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_template.h"
#include "chat/parse_answer.h"
#include "engine/loaded_model.h"

namespace krafla {

/// A prompt, and how the answer to it is read.
struct ChatPrompt {
  std::vector<std::int32_t> ids;
  /// Control tokens that the answer's text must show, for the parser needs them
  /// (Request::visible_control_tokens).
  std::vector<std::string> visible_control_tokens;
  AnswerStyle style;  ///< for Request::style
};

/// How conversations with one model are written and its answers read. Immutable and thread-safe after
/// construction.
class ConversationFormat {
 public:
  /// `loaded` has its tokenizer and outlives this. `chat_template` is a template's text or a built-in one's
  /// name; where it is empty, the model's own is used, and for conversations with tools its template for
  /// tools, if it has one. Errors of ChatTemplate's constructor.
  explicit ConversationFormat(const LoadedModel& loaded, const std::string& chat_template = "");

  /// Whether there is a template for conversations with tools, or without.
  bool has_template(bool tools) const { return find(tools) != nullptr; }

  /// Checks the messages of a request and fits them to the template: contents in parts are joined where it
  /// takes no parts. `name` stands for the source in errors. ML_E_FORMAT naming the message and its field.
  nlohmann::ordered_json read_messages(nlohmann::ordered_json messages, bool tools,
                                       std::string_view name) const;

  /// Checks the tools of a request: an array of at least one function, each an object. ML_E_FORMAT for
  /// another value, ML_E_ARG if the template takes no tools.
  nlohmann::ordered_json read_tools(nlohmann::ordered_json tools, std::string_view name) const;

  /// Renders and encodes a conversation. No text of the input becomes a control token, but the template's
  /// do. ML_E_ARG where there is no template; else the errors of ChatTemplate::render.
  ChatPrompt encode(const ChatInput& input) const;

 private:
  const ChatTemplate* find(bool tools) const;
  const ChatTemplate& at(bool tools) const;
  AnswerStyle answer_style(const Prompt& prompt, bool tools) const;

  const LoadedModel& loaded_;
  std::optional<ChatTemplate> template_, tool_template_;
};

}  // namespace krafla
