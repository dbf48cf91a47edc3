// Filters that make text or numbers of one value.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "jinja/interpreter.h"

namespace krafla::jinja {
namespace {

Value call_method(Interpreter& in, const Value& input, const char* name, Arguments& arguments) {
  return in.call(method(in.text(input), name), arguments);
}

Value tojson(Interpreter& in, const Value& input, Arguments& arguments) {
  const auto bound = bind("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = flag_argument(bound[0], false);
  style.sort_keys = flag_argument(bound[3], false);
  if (bound[1] != nullptr && !bound[1]->is_none()) {
    style.indented = true;
    style.item_separator.assign(1, ',');
    const Text* text = bound[1]->as_text();
    style.indent = text != nullptr ? text->bytes
                                   : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(
                                                     integer_argument("tojson", bound[1], 0), 0, 64)),
                                                 ' ');
  }
  if (bound[2] != nullptr && !bound[2]->is_none()) {
    const std::vector<Value> two = in.iterate(*bound[2]);
    if (two.size() != 2) fail(ML_E_FORMAT, "tojson: separators are two texts");
    style.item_separator = text_argument("tojson", &two[0]).bytes;
    style.key_separator = text_argument("tojson", &two[1]).bytes;
  }
  if (style.indent.size() + style.item_separator.size() + style.key_separator.size() > 256)
    fail(ML_E_FORMAT, "tojson: separators of more than 256 bytes");
  in.spend(weight_of(input));
  Text out = to_json(input, style);
  in.spend(out.bytes.size() / 16);
  return out;
}

Value trim(Interpreter& in, const Value& input, Arguments& arguments) {
  const auto bound = bind("trim", arguments, {"chars"});
  const Text text = in.text(input);
  const bool given = bound[0] != nullptr && !bound[0]->is_none();
  const std::string_view characters =
      given ? std::string_view(text_argument("trim", bound[0]).bytes) : std::string_view();
  in.spend(given ? characters.size() + text.bytes.size() / 4 : 0);
  const auto [first, last] = stripped(text.bytes, true, true, given ? &characters : nullptr);
  return text.slice(first, last);
}

Value replace(Interpreter& in, const Value& input, Arguments& arguments) {
  const auto bound = bind("replace", arguments, {"old", "new", "count"});
  Arguments texts;
  for (int i = 0; i < 2; ++i)
    texts.values.emplace_back(in.text(
        bound[static_cast<std::size_t>(i)] == nullptr ? Value() : *bound[static_cast<std::size_t>(i)]));
  if (bound[2] != nullptr && !bound[2]->is_none()) texts.values.push_back(*bound[2]);
  return call_method(in, input, "replace", texts);
}

Value title(Interpreter& in, const Value& input, Arguments&) {
  const Text text = in.text(input);
  in.spend(text.bytes.size());
  Text out;
  bool begins = true;  // after white space or one of -({[<
  for (std::size_t at = 0; at < text.bytes.size();) {
    const auto [code, size] = character_at(text.bytes, at);
    out.append(with_case(text.slice(at, at + size), begins ? Case::kUpper : Case::kLower));
    begins = is_space(code) || (code < 0x80 && std::string_view("-({[<").find(static_cast<char>(code)) !=
                                                   std::string_view::npos);
    at += size;
  }
  return out;
}

Value indent(Interpreter& in, const Value& input, Arguments& arguments) {
  const auto bound = bind("indent", arguments, {"width", "first", "blank"});
  Text indention;
  if (bound[0] != nullptr && bound[0]->as_text() != nullptr)
    indention = *bound[0]->as_text();
  else
    indention = Text(std::string(
        static_cast<std::size_t>(std::clamp<std::int64_t>(integer_argument("indent", bound[0], 4), 0, 4096)),
        ' '));
  const bool first = flag_argument(bound[1], false), blank = flag_argument(bound[2], false);
  Text text = in.text(input);
  text.append("\n");
  Arguments none;
  const std::vector<Value> lines = in.iterate(in.call(method(text, "splitlines"), none));
  Text out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Text& line = *lines[i].as_text();
    if (i > 0) out.append("\n");
    if (i == 0 ? first : blank || !line.bytes.empty()) out.append(indention);
    out.append(line);
    in.spend(1 + indention.bytes.size() / 16 + indention.literal.size());
    check_text(out.bytes.size());
  }
  return out;
}

/// Python's int() of a text; false where it raises.
bool read_integer(std::string_view text, std::int64_t base, std::int64_t& value) {
  const auto [first, last] = stripped(text, true, true);
  text = text.substr(first, last - first);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (base == 16 && (text.starts_with("0x") || text.starts_with("0X"))) text.remove_prefix(2);
  if (text.empty() || text[0] == '-') return false;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value, static_cast<int>(base));
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return false;
  if (negative) value = -value;
  return true;
}
bool read_float(std::string_view text, double& value) {
  const auto [first, last] = stripped(text, true, true);
  text = text.substr(first, last - first);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || text[0] == '-') return false;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return false;
  if (negative) value = -value;
  return true;
}

Value to_int(Interpreter& in, const Value& input, Arguments& arguments) {
  const auto bound = bind("int", arguments, {"default", "base"});
  Value otherwise = bound[0] == nullptr ? Value(std::int64_t{0}) : *bound[0];
  if (input.is_undefined()) in.attribute(input, "");
  std::int64_t whole = 0;
  if (input.integer(whole)) return whole;
  double real = 0;
  const Text* text = input.as_text();
  const std::int64_t base = std::clamp<std::int64_t>(integer_argument("int", bound[1], 10), 2, 36);
  if (text != nullptr && read_integer(text->bytes, base, whole)) return whole;
  if (text != nullptr ? !read_float(text->bytes, real) : !input.number(real)) return otherwise;
  if (!(std::fabs(real) < 9.2e18)) return otherwise;
  return static_cast<std::int64_t>(real);
}

Value to_float(Interpreter& in, const Value& input, Arguments& arguments) {
  const auto bound = bind("float", arguments, {"default"});
  if (input.is_undefined()) in.attribute(input, "");
  double real = 0;
  const Text* text = input.as_text();
  if (text != nullptr ? read_float(text->bytes, real) : input.number(real)) return real;
  return bound[0] == nullptr ? Value(0.0) : *bound[0];
}

/// Half to even, in decimal digits as Python's round().
double rounded(double value, int digits) {
  if (digits > 15 || !std::isfinite(value) || (digits >= 0 && std::fabs(value) > 9e15))
    return value;  // all larger ones are whole
  if (digits < 0) {
    const double power = std::pow(10.0, -digits);
    return std::nearbyint(value / power) * power;
  }
  return std::stod(fmt::format("{:.{}f}", value, digits));
}

Value round(Interpreter&, const Value& input, Arguments& arguments) {
  const auto bound = bind("round", arguments, {"precision", "method"});
  const std::int64_t digits = std::clamp<std::int64_t>(integer_argument("round", bound[0], 0), -300, 300);
  const std::string_view how =
      bound[1] == nullptr ? std::string_view("common") : text_argument("round", bound[1]).bytes;
  double value = 0;
  if (!input.number(value)) fail(ML_E_FORMAT, "round needs a number, not {}", type_name(input));
  if (how == "common") {
    std::int64_t whole = 0;
    if (input.integer(whole) && digits >= 0) return whole;
    return rounded(value, static_cast<int>(digits));
  }
  if (how != "ceil" && how != "floor")
    fail(ML_E_FORMAT, "round: the method is common, ceil or floor, not {}", how);
  const double power = std::pow(10.0, static_cast<double>(digits));
  return (how == "ceil" ? std::ceil(value * power) : std::floor(value * power)) / power;
}

Value absolute(Interpreter& in, const Value& input, Arguments&) {
  std::int64_t whole = 0;
  double value = 0;
  if (input.integer(whole)) return whole < 0 ? in.arithmetic("-", std::int64_t{0}, whole) : Value(whole);
  if (!input.number(value)) fail(ML_E_FORMAT, "abs needs a number, not {}", type_name(input));
  return std::fabs(value);
}

Value as_markup(Interpreter& in, const Value& input, Arguments&) {
  Text text = in.text(input);
  text.markup = true;
  return text;
}

Value escape(Interpreter& in, const Value& input, Arguments&) {
  Text text = in.text(input);
  in.spend(text.bytes.size() / 4);
  return text.markup ? text : escaped(text);
}

Value format(Interpreter& in, const Value& input, Arguments& arguments) {
  if (arguments.named.empty())
    return format_percent(in, in.text(input), List{.items = arguments.values, .form = List::Form::kTuple});
  Dict dict;
  for (auto& [name, value] : arguments.named) dict.set(Value::text(name), value);
  in.spend(arguments.named.size());
  return format_percent(in, in.text(input), dict);
}

Value truncate(Interpreter& in, const Value& input, Arguments& arguments) {
  const auto bound = bind("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const Text text = in.text(input);
  const Text end = bound[2] == nullptr ? Text(std::string(3, '.')) : text_argument("truncate", bound[2]);
  const std::int64_t length = integer_argument("truncate", bound[0], 255),
                     leeway = integer_argument("truncate", bound[3], 5);
  const auto offsets = character_offsets(text.bytes);
  const auto keep = length - static_cast<std::int64_t>(count_characters(end.bytes));
  if (keep < 0 || leeway < 0) fail(ML_E_FORMAT, "truncate: a length that has no room for the end");
  if (static_cast<std::int64_t>(offsets.size()) - 1 <= length + leeway) return text;
  std::size_t cut = offsets[static_cast<std::size_t>(keep)];
  if (!flag_argument(bound[1], false)) {
    const std::size_t space = text.bytes.substr(0, cut).rfind(' ');
    if (space != std::string::npos) cut = space;
  }
  Text out = text.slice(0, cut);
  out.append(end);
  return out;
}

Value string(Interpreter& in, const Value& input, Arguments&) { return in.text(input); }
Value upper(Interpreter& in, const Value& input, Arguments&) {
  return with_case(in.text(input), Case::kUpper);
}
Value lower(Interpreter& in, const Value& input, Arguments&) {
  return with_case(in.text(input), Case::kLower);
}
Value capitalize(Interpreter& in, const Value& input, Arguments&) {
  return with_case(in.text(input), Case::kCapitalize);
}
Value center(Interpreter& in, const Value& input, Arguments& arguments) {
  if (arguments.values.empty() && arguments.named.empty()) arguments.values.emplace_back(std::int64_t{80});
  return call_method(in, input, "center", arguments);
}
/// Runs of letters, digits and _; beyond ASCII, of all that is no white space.
Value wordcount(Interpreter& in, const Value& input, Arguments&) {
  const Text text = in.text(input);
  std::int64_t count = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.bytes.size(); at += character_at(text.bytes, at).size) {
    const std::uint32_t c = character_at(text.bytes, at).code;
    const bool word =
        c >= 0x80 ? !is_space(c) : c == '_' || (c >= '0' && c <= '9') || to_upper(c) != to_lower(c);
    count += word && !inside ? 1 : 0;
    inside = word;
  }
  return count;
}

/// RFC 3986's unreserved characters and / stay.
Value urlencode(Interpreter& in, const Value& input, Arguments&) {
  const Text text = in.text(input);
  in.spend(text.bytes.size());
  Text out;
  for (std::size_t i = 0; i < text.bytes.size(); ++i) {
    const char c = text.bytes[i];
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-_.~/").find(c) != std::string_view::npos;
    if (plain)
      out.append(text, i, i + 1);
    else
      out.append_changed(fmt::format("%{:02X}", static_cast<std::uint8_t>(c)), text, i, i + 1);
  }
  return out;
}

struct Named {
  std::string_view name;
  Filter filter;
};
constexpr Named kFilters[] = {
    {"tojson", tojson},  {"trim", trim},           {"replace", replace},
    {"title", title},    {"indent", indent},       {"int", to_int},
    {"float", to_float}, {"round", round},         {"abs", absolute},
    {"safe", as_markup}, {"escape", escape},       {"e", escape},
    {"string", string},  {"upper", upper},         {"lower", lower},
    {"format", format},  {"truncate", truncate},   {"capitalize", capitalize},
    {"center", center},  {"wordcount", wordcount}, {"urlencode", urlencode},
};

}  // namespace

Filter find_text_filter(std::string_view name) {
  for (const Named& known : kFilters)
    if (known.name == name) return known.filter;
  return nullptr;
}

}  // namespace krafla::jinja
