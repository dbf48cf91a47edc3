// The methods of Python's str and dict that leave the value as it is.
#include <algorithm>
#include <functional>

#include "base/error.h"
#include "jinja/interpreter.h"

namespace krafla::jinja {
namespace {

using TextMethod = Value (*)(Interpreter&, const Text&, Arguments&);

Value strip(std::string_view name, Interpreter& in, const Text& self, const Arguments& arguments, bool left,
            bool right) {
  const auto bound = bind(name, arguments, {"chars"});
  std::string_view characters;
  const bool given = bound[0] != nullptr && !bound[0]->is_none();
  if (given) characters = text_argument(name, bound[0]).bytes;
  in.spend(given ? characters.size() + self.bytes.size() / 4 : 0);
  const auto [first, last] = stripped(self.bytes, left, right, given ? &characters : nullptr);
  return self.slice(first, last);
}

/// Words between white space, at most `most` splits (negative: all).
std::vector<TextRange> split_space(std::string_view text, std::int64_t most) {
  std::vector<TextRange> parts;
  std::size_t at = stripped(text, true, false).first;
  while (at < text.size()) {
    if (most == 0) {
      parts.emplace_back(at, text.size());
      break;
    }
    std::size_t end = at;
    while (end < text.size() && !is_space(character_at(text, end).code)) end += character_at(text, end).size;
    parts.emplace_back(at, end);
    at = end + stripped(text.substr(end), true, false).first;
    --most;
  }
  return parts;
}
std::vector<TextRange> split_space_right(std::string_view text, std::int64_t most) {
  std::vector<TextRange> words = split_space(text, -1);
  if (most < 0 || static_cast<std::int64_t>(words.size()) <= most + 1) return words;
  const auto keep = static_cast<std::ptrdiff_t>(static_cast<std::int64_t>(words.size()) - most);
  words[static_cast<std::size_t>(keep - 1)].first = 0;
  words.erase(words.begin(), words.begin() + (keep - 1));
  return words;
}

std::vector<TextRange> split_at(std::string_view text, std::string_view separator, std::int64_t most,
                                bool from_right) {
  std::vector<TextRange> parts;
  std::size_t first = 0, last = text.size();
  for (; most != 0; --most) {
    const std::size_t found =
        from_right ? text.substr(0, last).rfind(separator) : text.find(separator, first);
    if (found == std::string_view::npos) break;
    if (from_right) {
      parts.emplace_back(found + separator.size(), last);
      last = found;
    } else {
      parts.emplace_back(first, found);
      first = found + separator.size();
    }
  }
  parts.emplace_back(first, last);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

Value split(const char* name, Interpreter& in, const Text& self, const Arguments& arguments,
            bool from_right) {
  const auto bound = bind(name, arguments, {"sep", "maxsplit"});
  const std::int64_t most = integer_argument(name, bound[1], -1);
  const bool space = bound[0] == nullptr || bound[0]->is_none();
  const std::string_view separator = space ? std::string_view() : text_argument(name, bound[0]).bytes;
  if (!space && separator.empty()) fail(ML_E_FORMAT, "{}: an empty separator", name);
  in.spend_search(self.bytes.size(), separator.size());
  List list;
  const auto parts = !space       ? split_at(self.bytes, separator, most, from_right)
                     : from_right ? split_space_right(self.bytes, most)
                                  : split_space(self.bytes, most);
  in.spend_values(parts.size());
  for (const auto& [first, last] : parts) list.items.emplace_back(self.slice(first, last));
  return list;
}

List lines_of(Interpreter& in, const Text& self, bool keep_ends) {
  List list;
  std::size_t first = 0;
  for (std::size_t at = 0; at < self.bytes.size();) {
    const auto [code, size] = character_at(self.bytes, at);
    const bool ends = (code >= 10 && code <= 13) || (code >= 0x1C && code <= 0x1E) || code == 0x2028 ||
                      code == 0x2029 || (code == 0x85 && size > 1);
    const std::size_t end = at;
    at += size;
    if (!ends) continue;
    in.spend_values(1);
    if (code == '\r' && at < self.bytes.size() && self.bytes[at] == '\n') ++at;
    list.items.emplace_back(self.slice(first, keep_ends ? at : end));
    first = at;
  }
  if (first < self.bytes.size()) list.items.emplace_back(self.slice(first, self.bytes.size()));
  return list;
}

/// startswith and endswith: one text or a tuple of them.
Value has_affix(const char* name, const Text& self, const Arguments& arguments, bool at_start) {
  const auto bound = bind(name, arguments, {"affix", "start"});
  const std::string_view text = std::string_view(self.bytes).substr(bound[1] == nullptr ? 0 : [&] {
    const auto offsets = character_offsets(self.bytes);
    const auto n = static_cast<std::int64_t>(offsets.size()) - 1;
    const std::int64_t at = integer_argument(name, bound[1], 0);
    return offsets[static_cast<std::size_t>(std::clamp<std::int64_t>(at < 0 ? at + n : at, 0, n))];
  }());
  const auto matches = [&](const Value& affix) {
    const std::string& bytes = text_argument(name, &affix).bytes;
    return at_start ? text.starts_with(bytes) : text.ends_with(bytes);
  };
  if (bound[0] != nullptr && bound[0]->as_list() != nullptr &&
      bound[0]->as_list()->form == List::Form::kTuple)
    return std::any_of(bound[0]->as_list()->items.begin(), bound[0]->as_list()->items.end(), matches);
  text_argument(name, bound[0]);
  return matches(*bound[0]);
}

Value find_in(const char* name, Interpreter& in, const Text& self, const Arguments& arguments,
              bool from_right) {
  const auto bound = bind(name, arguments, {"sub"});
  const std::string& sub = text_argument(name, bound[0]).bytes;
  in.spend_search(self.bytes.size(), sub.size());
  const std::size_t found = from_right ? self.bytes.rfind(sub) : self.bytes.find(sub);
  if (found == std::string::npos) return std::int64_t{-1};
  return static_cast<std::int64_t>(count_characters(std::string_view(self.bytes).substr(0, found)));
}

Value join(Interpreter& in, const Text& self, Arguments& arguments) {
  const auto bound = bind("join", arguments, {"iterable"});
  Text result;
  bool first = true;
  for (const Value& item : in.iterate(bound[0] == nullptr ? Value() : *bound[0])) {
    if (!first) {
      in.spend(1 + self.bytes.size() / 16 + self.literal.size());
      result.append(self);
    }
    first = false;
    result.append(text_argument("join", &item));
    in.spend(weight_of(item));
    check_text(result.bytes.size());
  }
  return result;
}

template <class Accept>
Value all_characters(const Text& self, Accept accept) {
  for (std::size_t at = 0; at < self.bytes.size(); at += character_at(self.bytes, at).size)
    if (!accept(character_at(self.bytes, at).code)) return false;
  return !self.bytes.empty();
}
bool is_digit(std::uint32_t c) { return c >= '0' && c <= '9'; }
bool is_alpha(std::uint32_t c) { return to_upper(c) != to_lower(c); }

/// zfill, ljust, rjust, center.
Value padded(const char* name, Interpreter& in, const Text& self, const Arguments& arguments) {
  const auto bound = bind(name, arguments, {"width", "fillchar"});
  const Text space(" "), zero("0");
  const std::string_view kind = name;
  const Text& fill = kind == "zfill" ? zero : bound[1] == nullptr ? space : text_argument(name, bound[1]);
  const auto size = static_cast<std::int64_t>(count_characters(self.bytes));
  const std::int64_t missing = std::max<std::int64_t>(0, integer_argument(name, bound[0], 0) - size);
  in.spend(static_cast<std::size_t>(missing));
  check_text(static_cast<std::size_t>(missing) * fill.bytes.size());
  const std::int64_t width = size + missing;
  const std::int64_t left = kind == "ljust"    ? 0
                            : kind == "center" ? missing / 2 + (missing & width & 1)
                                               : missing;
  const bool sign = kind == "zfill" && (self.bytes.starts_with('-') || self.bytes.starts_with('+'));
  Text result;
  if (sign) result.append(self, 0, 1);
  for (std::int64_t i = 0; i < left; ++i) result.append(fill);
  result.append(self, sign ? 1 : 0, self.bytes.size());
  for (std::int64_t i = left; i < missing; ++i) result.append(fill);
  return result;
}

struct NamedMethod {
  std::string_view name;
  TextMethod call;
};

constexpr NamedMethod kTextMethods[] = {
    {"strip",
     [](Interpreter& in, const Text& s, Arguments& a) { return strip("strip", in, s, a, true, true); }},
    {"lstrip",
     [](Interpreter& in, const Text& s, Arguments& a) { return strip("lstrip", in, s, a, true, false); }},
    {"rstrip",
     [](Interpreter& in, const Text& s, Arguments& a) { return strip("rstrip", in, s, a, false, true); }},
    {"split", [](Interpreter& in, const Text& s, Arguments& a) { return split("split", in, s, a, false); }},
    {"rsplit", [](Interpreter& in, const Text& s, Arguments& a) { return split("rsplit", in, s, a, true); }},
    {"splitlines",
     [](Interpreter& in, const Text& s, Arguments& a) -> Value {
       return lines_of(in, s, flag_argument(bind("splitlines", a, {"keepends"})[0], false));
     }},
    {"partition",
     [](Interpreter& in, const Text& s, Arguments& a) -> Value {
       const Text& sep = text_argument("partition", bind("partition", a, {"sep"})[0]);
       if (sep.bytes.empty()) fail(ML_E_FORMAT, "partition: an empty separator");
       in.spend_search(s.bytes.size(), sep.bytes.size());
       in.spend_values(4);
       const std::size_t at = s.bytes.find(sep.bytes), end = s.bytes.size();
       const bool found = at != std::string::npos;
       const std::size_t cut = found ? at : end, rest = found ? at + sep.bytes.size() : end;
       return List{.items = {s.slice(0, cut), s.slice(cut, rest), s.slice(rest, end)},
                   .form = List::Form::kTuple};
     }},
    {"startswith",
     [](Interpreter&, const Text& s, Arguments& a) { return has_affix("startswith", s, a, true); }},
    {"endswith",
     [](Interpreter&, const Text& s, Arguments& a) { return has_affix("endswith", s, a, false); }},
    {"removeprefix",
     [](Interpreter&, const Text& s, Arguments& a) -> Value {
       const std::string& affix = text_argument("removeprefix", bind("removeprefix", a, {"prefix"})[0]).bytes;
       return s.bytes.starts_with(affix) ? s.slice(affix.size(), s.bytes.size()) : s;
     }},
    {"removesuffix",
     [](Interpreter&, const Text& s, Arguments& a) -> Value {
       const std::string& affix = text_argument("removesuffix", bind("removesuffix", a, {"suffix"})[0]).bytes;
       return s.bytes.ends_with(affix) ? s.slice(0, s.bytes.size() - affix.size()) : s;
     }},
    {"replace",
     [](Interpreter& in, const Text& s, Arguments& a) -> Value {
       const auto bound = bind("replace", a, {"old", "new", "count"});
       const Text &from = text_argument("replace", bound[0]), &to = text_argument("replace", bound[1]);
       in.spend_search(s.bytes.size(), from.bytes.size());
       Text result = replaced(s, from.bytes, to, integer_argument("replace", bound[2], -1));
       in.spend(result.bytes.size() / 16 + result.literal.size());
       return result;
     }},
    {"upper", [](Interpreter&, const Text& s, Arguments&) -> Value { return with_case(s, Case::kUpper); }},
    {"lower", [](Interpreter&, const Text& s, Arguments&) -> Value { return with_case(s, Case::kLower); }},
    {"capitalize",
     [](Interpreter&, const Text& s, Arguments&) -> Value { return with_case(s, Case::kCapitalize); }},
    {"title", [](Interpreter&, const Text& s, Arguments&) -> Value { return with_case(s, Case::kTitle); }},
    {"join", join},
    {"format", [](Interpreter& in, const Text& s, Arguments& a) -> Value { return format_braces(in, s, a); }},
    {"find", [](Interpreter& in, const Text& s, Arguments& a) { return find_in("find", in, s, a, false); }},
    {"rfind", [](Interpreter& in, const Text& s, Arguments& a) { return find_in("rfind", in, s, a, true); }},
    {"index",
     [](Interpreter& in, const Text& s, Arguments& a) {
       Value at = find_in("index", in, s, a, false);
       if (*at.as_int() < 0) fail(ML_E_FORMAT, "index: the text is not there");
       return at;
     }},
    {"count",
     [](Interpreter& in, const Text& s, Arguments& a) -> Value {
       const std::string& sub = text_argument("count", bind("count", a, {"sub"})[0]).bytes;
       if (sub.empty()) return static_cast<std::int64_t>(count_characters(s.bytes) + 1);
       in.spend_search(s.bytes.size(), sub.size());
       return static_cast<std::int64_t>(split_at(s.bytes, sub, -1, false).size() - 1);
     }},
    {"isdigit", [](Interpreter&, const Text& s, Arguments&) { return all_characters(s, is_digit); }},
    {"isnumeric", [](Interpreter&, const Text& s, Arguments&) { return all_characters(s, is_digit); }},
    {"isdecimal", [](Interpreter&, const Text& s, Arguments&) { return all_characters(s, is_digit); }},
    {"isspace", [](Interpreter&, const Text& s, Arguments&) { return all_characters(s, is_space); }},
    {"isalpha", [](Interpreter&, const Text& s, Arguments&) { return all_characters(s, is_alpha); }},
    {"isalnum",
     [](Interpreter&, const Text& s, Arguments&) {
       return all_characters(s, [](std::uint32_t c) { return is_digit(c) || is_alpha(c); });
     }},
    {"isupper",
     [](Interpreter& in, const Text& s, Arguments&) -> Value {
       in.spend(s.bytes.size() / 4);
       return with_case(s, Case::kUpper).bytes == s.bytes && with_case(s, Case::kLower).bytes != s.bytes;
     }},
    {"islower",
     [](Interpreter& in, const Text& s, Arguments&) -> Value {
       in.spend(s.bytes.size() / 4);
       return with_case(s, Case::kLower).bytes == s.bytes && with_case(s, Case::kUpper).bytes != s.bytes;
     }},
    {"zfill", [](Interpreter& in, const Text& s, Arguments& a) { return padded("zfill", in, s, a); }},
    {"ljust", [](Interpreter& in, const Text& s, Arguments& a) { return padded("ljust", in, s, a); }},
    {"rjust", [](Interpreter& in, const Text& s, Arguments& a) { return padded("rjust", in, s, a); }},
    {"center", [](Interpreter& in, const Text& s, Arguments& a) { return padded("center", in, s, a); }},
};

List view_of(const Dict& dict, const std::string& name) {
  List list;
  list.form = List::Form::kView;
  for (const auto& [key, value] : dict.items) {
    if (name == "items")
      list.items.emplace_back(List{.items = {key, value}, .form = List::Form::kTuple});
    else
      list.items.push_back(name == "keys" ? key : value);
  }
  return list;
}

Value dict_method(Interpreter& in, const Value& self, const std::string& name, Arguments& arguments) {
  const Dict& dict = *self.as_dict();
  if (name == "get") {
    const auto bound = bind("get", arguments, {"key", "default"});
    if (bound[0] != nullptr) in.spend(weight_of(*bound[0]));
    const Value* found = bound[0] == nullptr ? nullptr : dict.find(*bound[0]);
    return found != nullptr ? *found : bound[1] != nullptr ? *bound[1] : Value(None{});
  }
  bind(name, arguments, {});
  in.spend_values(name == "items" ? dict.items.size() : 0);
  in.spend(dict.items.size());
  return name == "copy" ? self : Value(view_of(dict, name));
}

}  // namespace

Value method(const Value& self, const std::string& name) {
  const auto bound = [&](auto call) -> Value {
    return std::make_shared<const Callable>(Callable{name, call, depth_of(self) + 1});
  };
  if (self.as_text() != nullptr) {
    for (const NamedMethod& known : kTextMethods)
      if (known.name == name)
        return bound([self, call = known.call](Interpreter& in, Arguments& arguments) {
          in.spend(weight_of(self));
          return call(in, *self.as_text(), arguments);
        });
  } else if (self.as_dict() != nullptr) {
    if (name == "get" || name == "items" || name == "keys" || name == "values" || name == "copy")
      return bound([self, name](Interpreter& in, Arguments& arguments) {
        return dict_method(in, self, name, arguments);
      });
    for (const char* changing : {"pop", "popitem", "update", "setdefault", "clear", "fromkeys"})
      if (name == changing) {
        return bound([name](Interpreter&, Arguments&) -> Value {
          fail(ML_E_FORMAT, "{}: templates cannot change a dict", name);
        });
      }
  } else if (const List* list = self.as_list();
             list != nullptr && (name == "index" || name == "count") && list->indexed()) {
    return bound([self, name](Interpreter& in, Arguments& arguments) -> Value {
      const auto args = bind(name, arguments, {"value"});
      in.spend(weight_of(self));
      const std::vector<Value>& items = self.as_list()->items;
      const auto same = [&](const Value& item) { return args[0] != nullptr && equal(item, *args[0]); };
      if (name == "count") return static_cast<std::int64_t>(std::count_if(items.begin(), items.end(), same));
      const auto found = std::find_if(items.begin(), items.end(), same);
      if (found == items.end()) fail(ML_E_FORMAT, "index: the value is not there");
      return static_cast<std::int64_t>(found - items.begin());
    });
  }
  return {};
}

}  // namespace krafla::jinja
