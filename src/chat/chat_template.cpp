#include "chat/chat_template.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "jinja/interpreter.h"
#include "jinja/parser.h"

namespace krafla {
namespace {

using Json = nlohmann::ordered_json;
using jinja::Dict;
using jinja::List;
using jinja::Text;
using jinja::Value;

constexpr std::size_t kMaxTemplate = std::size_t{1} << 20;
/// Templates make control tokens of them: <|user|>, <|start_header_id|>user. They hold no marker themselves.
constexpr std::array<std::string_view, 9> kRoles = {"system",   "developer", "user",  "assistant",  "tool",
                                                    "function", "ipython",   "model", "observation"};

std::vector<std::string_view> builtin_names() {
  std::vector<std::string_view> names;
  for (const BuiltinTemplate& builtin : builtin_templates()) names.push_back(builtin.name);
  return names;
}

std::string find_text(std::string_view source) {
  for (const BuiltinTemplate& builtin : builtin_templates()) {
    if (builtin.name == source) return std::string(builtin.settings) + std::string(builtin.text);
  }
  if (source.size() < 32 && source.find('{') == std::string_view::npos)
    fail(ML_E_UNSUPPORTED, "chat template \"{}\": there is no built-in one of this name; there are {}",
         source, fmt::join(builtin_names(), ", "));
  if (source.size() > kMaxTemplate)
    fail(ML_E_FORMAT, "chat template: {} bytes; at most {}", source.size(), kMaxTemplate);
  return std::string(source);
}

/// As transformers hands a message on: without keys that are null, and the reasoning under each name
/// templates know.
Value message_value(const Json& message) {
  if (!message.is_object())
    fail(ML_E_ARG, "a message of the chat is {}; it must be an object",
         message.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60));
  Json given = Json::object();
  Json reasoning;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"})
    if (reasoning.is_null() && message.contains(name)) reasoning = message[name];
  if (!reasoning.is_null()) given["thinking"] = reasoning;
  for (const auto& [key, value] : message.items())
    if (!value.is_null()) given[key] = value;
  if (!reasoning.is_null()) given["reasoning_content"] = reasoning;
  Dict dict;
  for (const auto& [key, value] : given.items()) {
    const bool role =
        key == "role" && value.is_string() &&
        std::find(kRoles.begin(), kRoles.end(), value.get_ref<const std::string&>()) != kRoles.end();
    dict.set(Text(key, true), jinja::from_json(value, !role));
  }
  return dict;
}

Value messages_value(const Json& messages) {
  if (!messages.is_array()) fail(ML_E_ARG, "the messages of a chat must be an array");
  List list;
  for (const Json& message : messages) list.items.push_back(message_value(message));
  return list;
}

Value objects_value(const Json& objects, const char* name) {
  const bool good =
      objects.is_null() || (objects.is_array() && std::all_of(objects.begin(), objects.end(),
                                                              [](const Json& o) { return o.is_object(); }));
  if (!good) fail(ML_E_ARG, "the {} of a chat must be an array of objects", name);
  return jinja::from_json(objects, true);
}

}  // namespace

struct ChatTemplate::Syntax {
  explicit Syntax(std::string source) : text(std::move(source)), body(jinja::parse(text)) {}
  std::string text;
  jinja::Body body;
};

ChatTemplate::ChatTemplate(std::string_view source, SpecialTokens tokens)
    : syntax_(new Syntax(find_text(source))), tokens_(std::move(tokens)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

bool ChatTemplate::mentions(std::string_view word) const {
  return syntax_->text.find(word) != std::string::npos;
}

bool ChatTemplate::takes_parts() const {
  const std::string text = "A text of a user's";
  ChatInput input;
  const Json part = {{"type", "text"}, {"text", text}};
  input.messages.push_back({{"role", "user"}, {"content", Json::array({part})}});
  try {
    const std::string prompt = render(input).text;
    const std::size_t at = prompt.find(text);  // Python's and JSON's lists have it in quotes
    return at != std::string::npos && (at == 0 || (prompt[at - 1] != '"' && prompt[at - 1] != '\''));
  } catch (const Error&) {
    return false;
  }
}

Prompt ChatTemplate::render(const ChatInput& input) const {
  // The first of a name is the one a template sees: what is given beside the special tokens goes before them.
  std::vector<std::pair<std::string, Value>> context = {
      {"messages", messages_value(input.messages)},
      {"tools", objects_value(input.tools, "tools")},
      {"documents", objects_value(input.documents, "documents")},
      {"add_generation_prompt", input.add_generation_prompt}};
  if (!input.variables.is_object()) fail(ML_E_ARG, "the variables of a chat template must be an object");
  for (const auto& [name, value] : input.variables.items())
    context.emplace_back(name, jinja::from_json(value, true));
  if (!tokens_.bos.empty()) context.emplace_back("bos_token", Value::text(tokens_.bos));
  if (!tokens_.eos.empty()) context.emplace_back("eos_token", Value::text(tokens_.eos));
  jinja::Interpreter interpreter(input.now);
  Text text = interpreter.render(syntax_->body, std::move(context));
  return {std::move(text.bytes), std::move(text.literal)};
}

}  // namespace krafla
