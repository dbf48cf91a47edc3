// Python's two ways of formatting: "%s" % values and "{}".format(values).
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "jinja/interpreter.h"

namespace krafla::jinja {
namespace {

struct Spec {
  std::string fill = " ";
  char align = 0, sign = '-', type = 0;
  bool comma = false, alternate = false;
  int width = 0, precision = -1;
};

constexpr int kMaxWidth = 1000;

int read_number(std::string_view text, std::size_t& at) {
  int number = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    number = number * 10 + (text[at++] - '0');
    if (number > kMaxWidth) fail(ML_E_FORMAT, "a format's width or precision over {}", kMaxWidth);
  }
  return number;
}

bool is_one_of(char c, std::string_view all) { return all.find(c) != std::string_view::npos; }

Spec read_spec(std::string_view text) {
  Spec spec;
  std::size_t at = 0;
  const std::size_t first = text.empty() ? 0 : character_at(text, 0).size;
  if (first > 0 && first < text.size() && is_one_of(text[first], "<>^=")) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    at = first + 1;
  } else if (!text.empty() && is_one_of(text[0], "<>^=")) {
    spec.align = text[at++];
  }
  if (at < text.size() && is_one_of(text[at], "+- ")) spec.sign = text[at++];
  if (at < text.size() && text[at] == '#') spec.alternate = (++at, true);
  if (at < text.size() && text[at] == '0') {
    if (spec.align == 0) {
      spec.fill.assign(1, '0');
      spec.align = '=';
    }
    ++at;
  }
  spec.width = read_number(text, at);
  if (at < text.size() && text[at] == ',') spec.comma = (++at, true);
  if (at < text.size() && text[at] == '.') spec.precision = read_number(text, ++at);
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) fail(ML_E_FORMAT, "the format {} is unknown", text);
  return spec;
}

std::string with_commas(std::string_view digits) {
  const std::size_t end = std::min(digits.find_first_of(".e"), digits.size());
  std::string result;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && i < end && (end - i) % 3 == 0) result += ',';
    result += digits[i];
  }
  return result;
}

/// The number without its sign.
std::string digits_of(const Value& value, const Spec& spec) {
  std::int64_t whole = 0;
  if (value.integer(whole) && (spec.type == 0 || is_one_of(spec.type, "dixXob"))) {
    const std::uint64_t size =
        whole < 0 ? 0 - static_cast<std::uint64_t>(whole) : static_cast<std::uint64_t>(whole);
    switch (spec.type) {
      case 'x': return fmt::format("{}{:x}", spec.alternate ? "0x" : "", size);
      case 'X': return fmt::format("{}{:X}", spec.alternate ? "0X" : "", size);
      case 'o': return fmt::format("{}{:o}", spec.alternate ? "0o" : "", size);
      case 'b': return fmt::format("{}{:b}", spec.alternate ? "0b" : "", size);
      default: return std::to_string(size);
    }
  }
  double real = 0;
  if (!value.number(real))
    fail(ML_E_FORMAT, "the format {} needs a number, not {}", spec.type, type_name(value));
  real = std::fabs(real);
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  switch (spec.type) {
    case 'f':
    case 'F': return fmt::format("{:.{}f}", real, precision);
    case 'e': return fmt::format("{:.{}e}", real, precision);
    case 'g': return fmt::format("{:.{}g}", real, std::max(1, precision));
    case '%': return fmt::format("{:.{}f}%", real * 100, precision);
    case 0:
      if (spec.precision >= 0) return fmt::format("{:.{}g}", real, std::max(1, spec.precision));
      return float_repr(real);
    default: fail(ML_E_FORMAT, "the format {} is unknown for a {}", spec.type, type_name(value));
  }
}

Text formatted(const Value& value, const Spec& spec) {
  double number = 0;
  const bool numeric =
      value.number(number) && spec.type != 's' && !(value.as_bool() != nullptr && spec.type == 0);
  Text body, sign;
  if (numeric || (spec.type != 0 && spec.type != 's')) {
    const std::string digits = digits_of(value, spec);
    body = Text(spec.comma ? with_commas(digits) : digits);
    if (std::signbit(number) || spec.sign != '-')
      sign.bytes.assign(1, std::signbit(number) ? '-' : spec.sign);
  } else {
    body = to_text(value);
    if (spec.precision >= 0) {
      const auto offsets = character_offsets(body.bytes);
      body = body.slice(0, offsets[std::min(offsets.size() - 1, static_cast<std::size_t>(spec.precision))]);
    }
  }
  const auto size = static_cast<int>(count_characters(body.bytes) + sign.bytes.size());
  const int missing = std::max(0, spec.width - size);
  const char align = spec.align != 0 ? spec.align : numeric ? '>' : '<';
  const int left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  Text result;
  if (align == '=') result.append(sign);
  for (int i = 0; i < left; ++i) result.append(spec.fill);
  if (align != '=') result.append(sign);
  result.append(body);
  for (int i = left; i < missing; ++i) result.append(spec.fill);
  return result;
}

void spend_format(Interpreter& interpreter, const Value& value, const Spec& spec) {
  interpreter.spend((value.as_float() != nullptr ? 256 : 4) + weight_of(value) +
                    static_cast<std::size_t>(spec.width + std::max(spec.precision, 0)) / 8);
}

/// One conversion of a % format; `at` is behind the %.
Spec read_percent(std::string_view text, std::size_t& at) {
  Spec spec;
  spec.align = '>';
  for (; at < text.size() && is_one_of(text[at], "-+ 0#"); ++at) {
    if (text[at] == '-') spec.align = '<';
    if (text[at] == '+' || (text[at] == ' ' && spec.sign != '+')) spec.sign = text[at];
    if (text[at] == '0' && spec.align != '<') {
      spec.fill.assign(1, '0');
      spec.align = '=';
    }
    if (text[at] == '#') spec.alternate = true;
  }
  spec.width = read_number(text, at);
  if (at < text.size() && text[at] == '.') spec.precision = read_number(text, ++at);
  if (at == text.size()) fail(ML_E_FORMAT, "a % format ends too early");
  spec.type = text[at++];
  return spec;
}

}  // namespace

Text format_percent(Interpreter& interpreter, const Text& format, const Value& values) {
  const List* tuple = values.as_list();
  if (tuple != nullptr && tuple->form != List::Form::kTuple) tuple = nullptr;
  std::size_t used = 0;
  const auto next = [&]() -> const Value& {
    if (tuple == nullptr ? used > 0 : used >= tuple->items.size())
      fail(ML_E_FORMAT, "too few values for a % format");
    ++used;
    return tuple == nullptr ? values : tuple->items[used - 1];
  };
  interpreter.spend(weight_of(values) / 16 + format.bytes.size() / 16 + format.literal.size());
  Text result;
  for (std::size_t at = 0; at < format.bytes.size();) {
    const std::size_t percent = std::min(format.bytes.find('%', at), format.bytes.size());
    result.append(format, at, percent);
    at = percent + 1;
    if (percent == format.bytes.size()) break;
    Value value;
    if (at < format.bytes.size() && format.bytes[at] == '(') {
      const std::size_t close = format.bytes.find(')', at);
      const Dict* dict = values.as_dict();
      const Value* found = close == std::string::npos || dict == nullptr
                               ? nullptr
                               : dict->find(std::string_view(format.bytes).substr(at + 1, close - at - 1));
      if (found == nullptr) fail(ML_E_FORMAT, "a % format names a value that is not there");
      value = *found;
      used = 1;
      at = close + 1;
      Spec spec = read_percent(format.bytes, at);
      spend_format(interpreter, value, spec);
      result.append(formatted(value, spec));
      check_text(result.bytes.size());
      continue;
    }
    Spec spec = read_percent(format.bytes, at);
    if (spec.type == '%') {
      result.append("%");
      continue;
    }
    value = next();
    if (spec.type == 'r') {
      value = repr(value);
      spec.type = 's';
    }
    double real = 0;
    if (is_one_of(spec.type, "di") && value.as_float() != nullptr && value.number(real))
      value = static_cast<std::int64_t>(std::clamp(real, -9e18, 9e18));
    if (spec.type == 'i') spec.type = 'd';
    spend_format(interpreter, value, spec);
    result.append(formatted(value, spec));
    check_text(result.bytes.size());
  }
  if (tuple != nullptr ? used < tuple->items.size() : used == 0 && values.as_dict() == nullptr)
    fail(ML_E_FORMAT, "too many values for a % format");
  return result;
}

Text format_braces(Interpreter& interpreter, const Text& format, const Arguments& arguments) {
  Text result;
  std::size_t next = 0;
  const std::string& bytes = format.bytes;
  const auto field = [&](std::string_view name) -> Value {
    const std::size_t end = std::min(name.find_first_of(".["), name.size());
    const std::string head(name.substr(0, end));
    Value value;
    bool found = false;
    if (head.empty() || head.find_first_not_of("0123456789") == std::string::npos) {
      const std::size_t index = head.empty()      ? next++
                                : head.size() > 6 ? arguments.values.size()
                                                  : std::stoul(head);
      found = index < arguments.values.size();
      if (found) value = arguments.values[index];
    } else {
      interpreter.spend(arguments.named.size());
      for (const auto& [known, given] : arguments.named)
        if (known == head) value = given, found = true;
    }
    if (!found) fail(ML_E_FORMAT, "format has no value for {{{}}}", head);
    if (end < name.size() && name[end] == '.')
      return interpreter.attribute(value, std::string(name.substr(end + 1)));
    if (end < name.size() && name.ends_with(']'))
      return interpreter.item(value, Value::text(name.substr(end + 1, name.size() - end - 2)));
    return value;
  };
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
    result.append(format, at, brace);
    if (brace == bytes.size()) break;
    at = brace + 1;
    if (at < bytes.size() && bytes[at] == bytes[brace]) {
      result.append(format, at, at + 1);
      ++at;
      continue;
    }
    const std::size_t close = bytes.find('}', at);
    if (bytes[brace] == '}' || close == std::string::npos) fail(ML_E_FORMAT, "format: a single brace");
    const std::string_view inside = std::string_view(bytes).substr(at, close - at);
    const std::size_t colon = std::min(inside.find(':'), inside.size());
    std::string_view name = inside.substr(0, colon);
    const bool as_repr = name.ends_with("!r");
    if (as_repr || name.ends_with("!s")) name.remove_suffix(2);
    Value value = field(name);
    if (as_repr) value = repr(value);
    const Spec spec = read_spec(colon < inside.size() ? inside.substr(colon + 1) : std::string_view());
    spend_format(interpreter, value, spec);
    result.append(formatted(value, spec));
    check_text(result.bytes.size());
    at = close + 1;
  }
  return result;
}

}  // namespace krafla::jinja
