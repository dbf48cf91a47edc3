#include "chat/parse_answer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace krafla {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kNowhere = std::string::npos;

/// Where `marker` begins, or where the text's end could be its beginning.
std::size_t find_marker(std::string_view text, std::string_view marker, bool last) {
  const std::size_t found = text.find(marker);
  if (found != kNowhere || last) return found;
  for (std::size_t size = std::min(marker.size() - 1, text.size()); size > 0; --size)
    if (marker.starts_with(text.substr(text.size() - size))) return text.size() - size;
  return kNowhere;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first == kNowhere ? std::string_view() : text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first);
}

/// {"name": NAME, "arguments" or "parameters": object or its text}; false for anything else.
bool read_call(const Json& json, AnswerPart& call) {
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return false;
  const char* key = json.contains("arguments") ? "arguments" : "parameters";
  Json arguments = json.contains(key) ? json[key] : Json::object();
  if (arguments.is_string()) arguments = Json::parse(arguments.get<std::string>(), nullptr, false);
  if (!arguments.is_object()) return false;
  call.name = json["name"].get<std::string>();
  call.text = arguments.dump(-1, ' ', false, Json::error_handler_t::replace);
  return true;
}

/// Deep nesting would overflow the stack of the JSON library's destructor.
bool shallow(std::string_view text) {
  int depth = 0;
  for (const char c : text) {
    depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    if (depth > 200) return false;
  }
  return true;
}

bool read_json_calls(std::string_view text, std::vector<AnswerPart>& calls) {
  if (!shallow(text)) return false;
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return false;
  const Json all = json.is_array() ? json : Json::array({json});
  for (const Json& one : all) {
    calls.push_back({.kind = AnswerPart::Kind::kToolCall, .text = {}});
    if (!read_call(one, calls.back())) return false;
  }
  return !calls.empty();
}

/// The text up to `end`, which goes too; false where there is none.
bool take_until(std::string_view& text, std::string_view end, std::string_view& taken) {
  const std::size_t found = text.find(end);
  if (found == kNowhere) return false;
  taken = text.substr(0, found);
  text.remove_prefix(found + end.size());
  return true;
}
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool read_xml_call(std::string_view text, AnswerPart& call) {
  std::string_view name, body;
  text = trimmed(text);
  if (!take(text, "<function=") || !take_until(text, ">", name) || !take_until(text, "</function>", body) || !trimmed(text).empty())
    return false;
  Json arguments = Json::object();
  for (body = trimmed(body); !body.empty(); body = trimmed(body)) {
    std::string_view key, value;
    if (!take(body, "<parameter=") || !take_until(body, ">", key) || !take_until(body, "</parameter>", value)) return false;
    take(value, "\n");
    if (value.ends_with('\n')) value.remove_suffix(1);
    // A value that is JSON, but for a text, is what it says.
    Json parsed = shallow(value) ? Json::parse(value, nullptr, false) : Json(Json::value_t::discarded);
    arguments[std::string(trimmed(key))] = parsed.is_discarded() || parsed.is_string() ? Json(std::string(value)) : parsed;
  }
  call.name = trimmed(name);
  call.text = arguments.dump(-1, ' ', false, Json::error_handler_t::replace);
  return !call.name.empty();
}

}  // namespace

ToolFormat tool_format(std::string_view name) {
  constexpr std::pair<std::string_view, ToolFormat> kNames[] = {{"", ToolFormat::kNone},           {"hermes", ToolFormat::kHermes},
                                                                {"xml", ToolFormat::kXml},         {"llama3", ToolFormat::kLlama3},
                                                                {"mistral", ToolFormat::kMistral}, {"gemma", ToolFormat::kGemma}};
  for (const auto& [known, format] : kNames)
    if (known == name) return format;
  fail(ML_E_FORMAT, "tool-call format \"{}\"; the known ones are hermes, xml, llama3, mistral, gemma", name);
}

AnswerParser::AnswerParser(AnswerStyle style)
    : style_(std::move(style)), state_(style_.reasoning_opened && !style_.reasoning_close.empty() ? State::kReasoning : State::kText) {
  switch (style_.tools) {
    case ToolFormat::kNone: break;
    case ToolFormat::kHermes:
    case ToolFormat::kXml:
      openings_ = {"<tool_call>"};
      closing_ = "</tool_call>";
      break;
    case ToolFormat::kLlama3: openings_ = {"<|python_tag|>", "{"}; break;
    case ToolFormat::kMistral: openings_ = {"[TOOL_CALLS]"}; break;
    case ToolFormat::kGemma:
      openings_ = {"```tool_code\n", "```json\n"};
      closing_ = "```";
      break;
  }
}

void AnswerParser::emit(AnswerPart::Kind kind, std::size_t size, std::vector<AnswerPart>& parts) {
  if (size == 0) return;
  if (kind == AnswerPart::Kind::kText && !trimmed(std::string_view(waiting_).substr(0, size)).empty()) started_ = true;
  if (!parts.empty() && parts.back().kind == kind)
    parts.back().text.append(waiting_, 0, size);
  else
    parts.push_back({.kind = kind, .text = waiting_.substr(0, size)});
  waiting_.erase(0, size);
}

std::vector<AnswerPart> AnswerParser::feed(std::string_view text) {
  std::vector<AnswerPart> parts;
  waiting_ += text;
  while (step(false, parts)) {
  }
  return parts;
}

std::vector<AnswerPart> AnswerParser::finish() {
  std::vector<AnswerPart> parts;
  while (step(true, parts)) {
  }
  return parts;
}

/// Whether there is more to do with what waits.
bool AnswerParser::step(bool last, std::vector<AnswerPart>& parts) {
  if (waiting_.empty()) return false;
  const std::size_t before = waiting_.size();
  const State was = state_;
  if (state_ == State::kReasoning) {
    const std::size_t at = find_marker(waiting_, style_.reasoning_close, last);
    emit(AnswerPart::Kind::kReasoning, std::min(at, waiting_.size()), parts);
    if (waiting_.starts_with(style_.reasoning_close)) {
      waiting_.erase(0, style_.reasoning_close.size());
      state_ = State::kText;
    }
  } else if (state_ == State::kCall) {
    return call_step(last, parts);
  } else {
    text_step(last, parts);
  }
  return waiting_.size() != before || state_ != was;
}

void AnswerParser::text_step(bool last, std::vector<AnswerPart>& parts) {
  std::size_t first = waiting_.size();
  std::string_view marker;
  const auto look = [&](const std::string& candidate) {
    const std::size_t at = candidate.empty() ? kNowhere : find_marker(waiting_, candidate, last);
    // A bare { begins a call only where the answer begins.
    if (candidate == "{" && (started_ || at == kNowhere || !trimmed(std::string_view(waiting_).substr(0, at)).empty())) return;
    if (at < first || (at == first && candidate.size() > marker.size())) first = at, marker = candidate;
  };
  if (!style_.reasoning_close.empty()) look(style_.reasoning_open);
  for (const std::string& opening : openings_) look(opening);
  emit(AnswerPart::Kind::kText, first, parts);
  if (marker.empty() || !waiting_.starts_with(marker)) return;
  if (marker == style_.reasoning_open) {
    waiting_.erase(0, marker.size());
    state_ = State::kReasoning;
  } else {
    opening_ = marker == "{" ? 0 : marker.size();
    state_ = State::kCall;
  }
}

/// `waiting_` begins with a call's opening marker.
bool AnswerParser::call_step(bool last, std::vector<AnswerPart>& parts) {
  std::size_t end = closing_.empty() ? kNowhere : waiting_.find(closing_, opening_);
  if (end == kNowhere && !last) return false;
  const bool closed = end != kNowhere;
  if (!closed) end = waiting_.size();
  const std::string_view inside = std::string_view(waiting_).substr(opening_, end - opening_);
  const std::size_t size = closed ? end + closing_.size() : end;
  std::vector<AnswerPart> calls;
  bool good = closed || closing_.empty();
  if (good && style_.tools == ToolFormat::kXml) {
    calls.push_back({.kind = AnswerPart::Kind::kToolCall, .text = {}});
    good = read_xml_call(inside, calls.back());
  } else if (good) {
    good = read_json_calls(inside, calls);
  }
  state_ = State::kText;
  if (good) {
    calls.front().raw = waiting_.substr(0, size);
    started_ = true;
    waiting_.erase(0, size);
    for (AnswerPart& call : calls) parts.push_back(std::move(call));
  } else {
    started_ = true;
    emit(AnswerPart::Kind::kText, closed ? size : std::max<std::size_t>(opening_, 1), parts);
  }
  return true;
}

}  // namespace krafla
