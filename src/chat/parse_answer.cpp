#include "chat/parse_answer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"

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
  return first == kNowhere ? std::string_view()
                           : text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first);
}

std::size_t count_space_before(std::string_view text, std::size_t end) {
  std::size_t first = end;
  while (first > 0 && std::string_view(" \t\r\n").find(text[first - 1]) != kNowhere) --first;
  return end - first;
}

std::string compact(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// {"name": NAME, "arguments" or "parameters": object or its text}; false for anything else. Without
/// arguments it is a call only between markers that say so.
bool read_call(const Json& json, bool need_arguments, AnswerPart& call) {
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return false;
  const char* key = json.contains("arguments") ? "arguments" : "parameters";
  if (need_arguments && !json.contains(key)) return false;
  Json arguments = json.contains(key) ? json[key] : Json::object();
  if (arguments.is_string()) arguments = parse_json<Json>(arguments.get_ref<const std::string&>());
  if (!arguments.is_object()) return false;
  call.name = json["name"].get<std::string>();
  call.arguments = compact(arguments);
  return true;
}

AnswerPart new_call() { return {.kind = AnswerPart::Kind::kToolCall, .text = {}}; }

/// One call, or an array of them.
bool read_json_calls(std::string_view text, bool need_arguments, std::vector<AnswerPart>& calls) {
  text = trimmed(text);
  if (!text.starts_with('{') && !text.starts_with('[')) return false;
  const Json json = parse_json<Json>(text);
  if (json.is_discarded()) return false;
  const Json all = json.is_array() ? json : Json::array({json});
  for (const Json& one : all) {
    calls.push_back(new_call());
    if (!read_call(one, need_arguments, calls.back())) return false;
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
  if (!take(text, "<function=") || !take_until(text, ">", name) || !take_until(text, "</function>", body) ||
      !trimmed(text).empty())
    return false;
  Json arguments = Json::object();
  for (body = trimmed(body); !body.empty(); body = trimmed(body)) {
    std::string_view key, value;
    if (!take(body, "<parameter=") || !take_until(body, ">", key) || !take_until(body, "</parameter>", value))
      return false;
    take(value, "\n");
    if (value.ends_with('\n')) value.remove_suffix(1);
    // A value that is JSON, but for a text, is what it says.
    Json parsed = parse_json<Json>(value);
    arguments[std::string(trimmed(key))] =
        parsed.is_discarded() || parsed.is_string() ? Json(std::string(value)) : parsed;
  }
  call.name = trimmed(name);
  call.arguments = compact(arguments);
  return !call.name.empty();
}

/// NAME[ARGS]{arguments}, perhaps with [CALL_ID]ID before [ARGS].
bool read_args_call(std::string_view text, AnswerPart& call) {
  std::string_view name;
  if (!take_until(text, "[ARGS]", name)) return false;
  name = trimmed(name.substr(0, name.find("[CALL_ID]")));
  const Json arguments = parse_json<Json>(text);
  if (name.empty() || !arguments.is_object()) return false;
  call.name = name;
  call.arguments = compact(arguments);
  return true;
}

struct CallMarkers {
  std::vector<std::string> openings;
  std::string closing;              // empty: the answer's end
  std::vector<std::string> within;  // between them
};

CallMarkers call_markers(ToolFormat format) {
  switch (format) {
    case ToolFormat::kNone: break;
    case ToolFormat::kHermes:
    case ToolFormat::kXml: return {{"<tool_call>"}, "</tool_call>", {}};
    case ToolFormat::kLlama3: return {{"<|python_tag|>", "{"}, "", {}};
    case ToolFormat::kMistral: return {{"[TOOL_CALLS]"}, "", {"[ARGS]", "[CALL_ID]"}};
    case ToolFormat::kGemma: return {{"```tool_code\n", "```json\n"}, "```", {}};
  }
  return {};
}

}  // namespace

ToolFormat tool_format(std::string_view name) {
  constexpr std::pair<std::string_view, ToolFormat> kNames[] = {
      {"", ToolFormat::kNone},         {"hermes", ToolFormat::kHermes},   {"xml", ToolFormat::kXml},
      {"llama3", ToolFormat::kLlama3}, {"mistral", ToolFormat::kMistral}, {"gemma", ToolFormat::kGemma}};
  for (const auto& [known, format] : kNames)
    if (known == name) return format;
  fail(ML_E_FORMAT, "tool-call format \"{}\"; the known ones are hermes, xml, llama3, mistral, gemma", name);
}

std::vector<std::string> answer_markers(const AnswerStyle& style) {
  CallMarkers calls = call_markers(style.tools);
  std::vector<std::string> all = std::move(calls.openings);
  all.insert(all.end(), calls.within.begin(), calls.within.end());
  for (const std::string& text : {calls.closing, style.reasoning_open, style.reasoning_close})
    if (!text.empty()) all.push_back(text);
  return all;
}

AnswerParser::AnswerParser(AnswerStyle style)
    : style_(std::move(style)),
      state_(style_.reasoning_opened && !style_.reasoning_close.empty() ? State::kReasoning : State::kText) {
  CallMarkers calls = call_markers(style_.tools);
  openings_ = std::move(calls.openings);
  closing_ = std::move(calls.closing);
}

void AnswerParser::emit(AnswerPart::Kind kind, std::size_t size, Parts& parts) {
  if (size == 0) return;
  if (kind == AnswerPart::Kind::kText && !trimmed(std::string_view(waiting_).substr(0, size)).empty())
    started_ = true;
  if (!parts.empty() && parts.back().kind == kind)
    parts.back().text.append(waiting_, 0, size);
  else
    parts.push_back({.kind = kind, .text = waiting_.substr(0, size)});
  waiting_.erase(0, size);
}

std::vector<AnswerPart> AnswerParser::feed(std::string_view text) {
  Parts parts;
  waiting_ += text;
  while (step(false, parts)) {
  }
  return parts;
}

std::vector<AnswerPart> AnswerParser::finish() {
  Parts parts;
  while (step(true, parts)) {
  }
  return parts;
}

/// Whether there may be more to do with what waits.
bool AnswerParser::step(bool last, Parts& parts) {
  if (waiting_.empty()) return false;
  const std::size_t before = waiting_.size();
  const State was = state_;
  switch (state_) {
    case State::kSpace: space_step(parts); break;
    case State::kReasoning: reasoning_step(last, parts); break;
    case State::kText: text_step(last, parts); break;
    case State::kCall: call_step(last, parts); break;
  }
  return waiting_.size() != before || state_ != was;
}

void AnswerParser::space_step(Parts& parts) {
  const std::size_t size = std::min(waiting_.find_first_not_of(" \t\r\n"), waiting_.size());
  emit(AnswerPart::Kind::kMarker, size, parts);
  if (!waiting_.empty()) state_ = after_;
}

/// White space before a marker waits with it, as it goes with it.
void AnswerParser::reasoning_step(bool last, Parts& parts) {
  const std::size_t at = std::min(find_marker(waiting_, style_.reasoning_close, last), waiting_.size());
  const bool whole = std::string_view(waiting_).substr(at).starts_with(style_.reasoning_close);
  const std::size_t space = last && !whole ? 0 : count_space_before(waiting_, at);
  emit(AnswerPart::Kind::kReasoning, at - space, parts);
  if (!whole) return;
  emit(AnswerPart::Kind::kMarker, space + style_.reasoning_close.size(), parts);
  state_ = State::kSpace;
  after_ = State::kText;
}

/// The first marker, or what may become one.
AnswerParser::Marker AnswerParser::next_marker(bool last) const {
  const std::string_view text = waiting_;
  std::string_view found;
  Marker marker{text.size(), 0, false};
  const auto look = [&](const std::string& candidate, bool call) {
    const std::size_t at = find_marker(text, candidate, last);
    // A bare { begins a call only where the answer begins.
    if (at == kNowhere || (candidate == "{" && (started_ || !trimmed(text.substr(0, at)).empty()))) return;
    if (at < marker.first || (at == marker.first && candidate.size() > found.size()))
      marker = {at, 0, call}, found = candidate;
  };
  if (!style_.reasoning_open.empty() && !style_.reasoning_close.empty()) look(style_.reasoning_open, false);
  for (const std::string& opening : openings_) look(opening, true);
  if (!found.empty() && text.substr(marker.first).starts_with(found)) marker.size = found.size();
  return marker;
}

void AnswerParser::text_step(bool last, Parts& parts) {
  const Marker marker = next_marker(last);
  const std::size_t space = last && marker.size == 0 ? 0 : count_space_before(waiting_, marker.first);
  emit(AnswerPart::Kind::kText, marker.first - space, parts);
  if (marker.size == 0) return;
  if (marker.call) {
    space_ = space;
    opening_ = seen_ = space + (waiting_[space] == '{' ? 0 : marker.size);
    state_ = State::kCall;
    return;
  }
  emit(AnswerPart::Kind::kMarker, space + marker.size, parts);
  state_ = State::kSpace;
  after_ = State::kReasoning;
}

bool AnswerParser::read_calls(std::string_view inside, Parts& calls) const {
  const bool bare = style_.tools == ToolFormat::kLlama3 || style_.tools == ToolFormat::kGemma;
  if (read_json_calls(inside, bare, calls)) return true;
  calls.assign(1, new_call());
  if (style_.tools == ToolFormat::kHermes || style_.tools == ToolFormat::kXml)
    return read_xml_call(inside, calls[0]);
  return style_.tools == ToolFormat::kMistral && read_args_call(inside, calls[0]);
}

/// `waiting_` begins with space_ bytes of white space and a call's opening marker.
void AnswerParser::call_step(bool last, Parts& parts) {
  // Mistral's calls end where the next begins.
  const std::string& ending = style_.tools == ToolFormat::kMistral ? openings_[0] : closing_;
  std::size_t end = ending.empty() ? kNowhere : waiting_.find(ending, seen_);
  if (end == kNowhere && !last) {
    seen_ = std::max(opening_, waiting_.size() - std::min(waiting_.size(), ending.size()));
    return;
  }
  const bool closed = end != kNowhere;
  end = std::min(end, waiting_.size());
  const std::size_t size = closed ? end + closing_.size() : end;
  const std::string_view inside = std::string_view(waiting_).substr(opening_, end - opening_);
  Parts calls;
  if ((!closed && !closing_.empty()) || !read_calls(inside, calls)) {
    state_ = State::kText;
    emit(AnswerPart::Kind::kText, text_of_no_call(closed, inside, size), parts);
    return;
  }
  emit(AnswerPart::Kind::kMarker, space_, parts);
  calls.front().text = waiting_.substr(0, size - space_);
  waiting_.erase(0, size - space_);
  for (AnswerPart& call : calls) parts.push_back(std::move(call));
  started_ = true;
  state_ = State::kSpace;
  after_ = State::kText;
}

/// How much of what was no call is surely text: up to where another call may begin.
std::size_t AnswerParser::text_of_no_call(bool closed, std::string_view inside, std::size_t size) const {
  if (style_.tools == ToolFormat::kLlama3) return std::max(opening_, space_ + 1);
  std::size_t again = kNowhere;
  for (const std::string& opening : openings_)
    if (const std::size_t at = inside.rfind(opening); closed && at != kNowhere)
      again = again == kNowhere ? at : std::max(again, at);
  return again == kNowhere ? size : opening_ + again - count_space_before(inside, again);
}

}  // namespace krafla
