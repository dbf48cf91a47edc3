// JSON's values as the engine's, and back to text as Python's json.dumps writes it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "jinja/value.h"

namespace krafla::jinja {
namespace {

Value convert(const nlohmann::ordered_json& json, bool literal, int depth) {
  if (depth > kMaxDepth) fail(ML_E_FORMAT, "JSON is nested more than {} deep", kMaxDepth);
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::null: return None{};
    case nlohmann::ordered_json::value_t::boolean: return json.get<bool>();
    case nlohmann::ordered_json::value_t::number_integer: return json.get<std::int64_t>();
    case nlohmann::ordered_json::value_t::number_unsigned: {
      const auto number = json.get<std::uint64_t>();
      if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        return static_cast<double>(number);
      return static_cast<std::int64_t>(number);
    }
    case nlohmann::ordered_json::value_t::number_float: return json.get<double>();
    case nlohmann::ordered_json::value_t::string: return Text(json.get_ref<const std::string&>(), literal);
    case nlohmann::ordered_json::value_t::array: {
      List list;
      list.items.reserve(json.size());
      for (const auto& item : json) list.items.push_back(convert(item, literal, depth + 1));
      return list;
    }
    case nlohmann::ordered_json::value_t::object: {
      Dict dict;
      for (const auto& [key, item] : json.items())
        dict.set(Text(key, literal), convert(item, literal, depth + 1));
      return dict;
    }
    default: fail(ML_E_FORMAT, "JSON of a kind that templates do not know");
  }
}

void dump_text(const Text& text, bool ensure_ascii, Text& out) {
  const std::string& bytes = text.bytes;
  out.append("\"");
  std::size_t plain = 0;  // from here on nothing needs a change
  for (std::size_t at = 0; at < bytes.size();) {
    const auto [code, size] = character_at(bytes, at);
    std::string changed;
    switch (code) {
      case '"': changed = "\\\""; break;
      case '\\': changed = "\\\\"; break;
      case '\n': changed = "\\n"; break;
      case '\r': changed = "\\r"; break;
      case '\t': changed = "\\t"; break;
      case '\f': changed = "\\f"; break;
      case '\b': changed = "\\b"; break;
      default:
        if (code < 0x20 || (ensure_ascii && code > 0x7E && code < 0x10000 && code != 0x7F))
          changed = fmt::format("\\u{:04x}", code);
        else if (ensure_ascii && code >= 0x10000)
          changed = fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10),
                                0xDC00 + ((code - 0x10000) & 0x3FF));
    }
    if (!changed.empty()) {
      out.append(text, plain, at);
      out.append_changed(changed, text, at, at + size);
      plain = at + size;
    }
    at += size;
  }
  out.append(text, plain, bytes.size());
  out.append("\"");
}

class Dumper {
 public:
  explicit Dumper(const JsonStyle& style) : style_(style) {}

  void dump(const Value& value, int depth, Text& out) const {
    check_text(out.bytes.size());
    const List* list = value.as_list();
    if (const Text* text = value.as_text())
      dump_text(*text, style_.ensure_ascii, out);
    else if (const Dict* dict = value.as_dict())
      dump_dict(*dict, depth, out);
    else if (list != nullptr && (list->form == List::Form::kList || list->form == List::Form::kTuple))
      dump_list(*list, depth, out);
    else
      out.append(scalar(value));
  }

 private:
  static std::string scalar(const Value& value) {
    if (value.is_none()) return "null";
    if (const bool* flag = value.as_bool()) return *flag ? "true" : "false";
    if (const std::int64_t* number = value.as_int()) return std::to_string(*number);
    if (const double* real = value.as_float())
      return std::isnan(*real)   ? "NaN"
             : std::isinf(*real) ? (*real < 0 ? "-Infinity" : "Infinity")
                                 : float_repr(*real);
    fail(ML_E_FORMAT, "a value of type {} cannot be written as JSON", type_name(value));
  }
  void line(int depth, Text& out) const {
    if (!style_.indented) return;
    out.append("\n");
    for (int i = 0; i < depth; ++i) out.append(style_.indent);
  }
  void dump_list(const List& list, int depth, Text& out) const {
    if (list.items.empty()) return out.append("[]");
    out.append("[");
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out.append(style_.item_separator);
      line(depth + 1, out);
      dump(list.items[i], depth + 1, out);
    }
    line(depth, out);
    out.append("]");
  }
  void dump_dict(const Dict& dict, int depth, Text& out) const {
    if (dict.items.empty()) return out.append("{}");
    std::vector<const std::pair<Value, Value>*> items;
    items.reserve(dict.items.size());
    for (const auto& item : dict.items) items.push_back(&item);
    if (style_.sort_keys)
      std::stable_sort(items.begin(), items.end(),
                       [](const auto* a, const auto* b) { return compare(a->first, b->first) < 0; });
    out.append("{");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out.append(style_.item_separator);
      line(depth + 1, out);
      const Text* key = items[i]->first.as_text();
      dump_text(key != nullptr ? *key : Text(scalar(items[i]->first)), style_.ensure_ascii, out);
      out.append(style_.key_separator);
      dump(items[i]->second, depth + 1, out);
    }
    line(depth, out);
    out.append("}");
  }
  const JsonStyle& style_;
};

}  // namespace

Value from_json(const nlohmann::ordered_json& json, bool literal) { return convert(json, literal, 0); }

Text to_json(const Value& value, const JsonStyle& style) {
  Text out;
  Dumper(style).dump(value, 0, out);
  check_text(out.bytes.size());
  return out;
}

}  // namespace krafla::jinja
