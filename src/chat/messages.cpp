#include "chat/messages.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace krafla {
namespace {

using Json = nlohmann::ordered_json;

std::string shown(const Json& value) {
  constexpr std::size_t kMost = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > kMost ? text.substr(0, kMost) + " ..." : text;
}

/// A null counts as missing, as templates see it.
const Json* member(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::string fault(const std::string& place, const Json* found, const char* allowed) {
  return fmt::format("{} is {}; it must be {}", place, found == nullptr ? "missing" : shown(*found), allowed);
}

std::string fault_of_part(const Json& part, const std::string& place) {
  if (!part.is_object()) return fault(place, &part, R"(an object like {"type": "text", "text": "Hello"})");
  const Json* type = member(part, "type");
  if (type == nullptr || *type != "text")
    return fault(place + ".type", type, "\"text\": there are no other parts yet");
  const Json* text = member(part, "text");
  return text != nullptr && text->is_string() ? "" : fault(place + ".text", text, "a text");
}

std::string fault_of_content(const Json* content, const std::string& place) {
  if (content == nullptr || content->is_string()) return {};
  if (!content->is_array()) return fault(place, content, "a text or an array of parts");
  for (std::size_t i = 0; i < content->size(); ++i)
    if (std::string found = fault_of_part((*content)[i], fmt::format("{}[{}]", place, i)); !found.empty())
      return found;
  return {};
}

std::string fault_of_calls(const Json* calls, const std::string& place) {
  if (calls == nullptr) return {};
  if (!calls->is_array()) return fault(place, calls, "an array of calls");
  for (std::size_t i = 0; i < calls->size(); ++i) {
    const Json& call = (*calls)[i];
    const std::string at = fmt::format("{}[{}]", place, i);
    if (!call.is_object())
      return fault(at, &call,
                   R"(an object like {"type": "function", "function": {"name": "f", "arguments": {}}})");
    const Json* function = member(call, "function");
    if (function != nullptr && !function->is_object())
      return fault(at + ".function", function, "an object with \"name\" and \"arguments\"");
  }
  return {};
}

std::string fault_of_message(const Json& message, const std::string& place) {
  if (!message.is_object())
    return fault(place, &message, R"(an object like {"role": "user", "content": "Hello"})");
  const Json* role = member(message, "role");
  if (role == nullptr || !role->is_string() || role->get_ref<const std::string&>().empty())
    return fault(place + ".role", role, R"(a text like "user" or "assistant")");
  if (std::string found = fault_of_content(member(message, "content"), place + ".content"); !found.empty())
    return found;
  for (const char* key : {"reasoning_content", "thinking", "reasoning", "name", "tool_call_id"})
    if (const Json* value = member(message, key); value != nullptr && !value->is_string())
      return fault(fmt::format("{}.{}", place, key), value, "a text");
  return fault_of_calls(member(message, "tool_calls"), place + ".tool_calls");
}

}  // namespace

std::string find_fault(const Json& messages) {
  if (!messages.is_array())
    return fault("messages", messages.is_null() ? nullptr : &messages, "an array of messages");
  for (std::size_t i = 0; i < messages.size(); ++i)
    if (std::string found = fault_of_message(messages[i], fmt::format("messages[{}]", i)); !found.empty())
      return found;
  return {};
}

void join_parts(Json& messages) {
  for (Json& message : messages) {
    const auto content = message.find("content");
    if (content == message.end() || !content->is_array()) continue;
    std::string joined;
    for (const Json& part : *content) {
      if (&part != &content->front()) joined += '\n';
      joined += part["text"].get_ref<const std::string&>();
    }
    *content = joined;
  }
}

}  // namespace krafla
