#include "jinja/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace krafla::jinja {
namespace {

int checked_depth(int inner) {
  if (inner >= kMaxDepth) fail(ML_E_FORMAT, "values are nested more than {} deep", kMaxDepth);
  return inner + 1;
}

std::size_t checked_weight(std::size_t weight) {
  if (weight > kMaxWeight) fail(ML_E_FORMAT, "a list or dict of more than {} items", kMaxWeight);
  return weight;
}

int three_way(double a, double b) { return a < b ? -1 : a > b ? 1 : 0; }

void write_repr(const Value& value, Text& out);

void write_items(const char* open, const std::vector<Value>& items, const char* close, Text& out) {
  out.append(open);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.append(", ");
    write_repr(items[i], out);
  }
  out.append(close);
}

void write_list(const List& list, Text& out) {
  switch (list.form) {
    case List::Form::kList: return write_items("[", list.items, "]", out);
    case List::Form::kTuple: return write_items("(", list.items, list.items.size() == 1 ? ",)" : ")", out);
    case List::Form::kRange:
      if (list.step == 1) return out.append(fmt::format("range({}, {})", list.start, list.stop));
      return out.append(fmt::format("range({}, {}, {})", list.start, list.stop, list.step));
    case List::Form::kView: return write_items("dict_view([", list.items, "])", out);
    case List::Form::kGenerator: return out.append("<generator object>");
  }
}

void write_dict(const Dict& dict, Text& out) {
  out.append("{");
  for (std::size_t i = 0; i < dict.items.size(); ++i) {
    if (i > 0) out.append(", ");
    write_repr(dict.items[i].first, out);
    out.append(": ");
    write_repr(dict.items[i].second, out);
  }
  out.append("}");
}

/// As Python's str.isprintable says of the characters below U+3000 that matter.
bool printable(std::uint32_t code) {
  if (code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0xAD) return false;
  const bool format = code == 0x61C || code == 0x180E || (code >= 0x200B && code <= 0x200F) ||
                      (code >= 0x202A && code <= 0x202E) || (code >= 0x2060 && code <= 0x206F) ||
                      code == 0xFEFF || (code >= 0xFFF9 && code <= 0xFFFB);
  const bool unassigned = (code >= 0xE000 && code <= 0xF8FF) || code >= 0xE0000 || (code & 0xFFFE) == 0xFFFE;
  return code == ' ' || !(is_space(code) || format || unassigned);
}

Text text_repr(const Text& text) {
  const std::string& bytes = text.bytes;
  const char quote =
      bytes.find('\'') != std::string::npos && bytes.find('"') == std::string::npos ? '"' : '\'';
  Text out(std::string(1, quote));
  for (std::size_t at = 0; at < bytes.size();) {
    const auto [code, size] = character_at(bytes, at);
    std::string changed;
    if (code == static_cast<std::uint32_t>(quote) || code == '\\')
      changed = {'\\', static_cast<char>(code)};
    else if (code == '\n')
      changed = "\\n";
    else if (code == '\r')
      changed = "\\r";
    else if (code == '\t')
      changed = "\\t";
    else if (!printable(code) || (size == 1 && code >= 0x80))
      changed = code < 0x100     ? fmt::format("\\x{:02x}", code)
                : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                                 : fmt::format("\\U{:08x}", code);
    if (changed.empty())
      out.append(text, at, at + size);
    else
      out.append_changed(changed, text, at, at + size);
    at += size;
  }
  out.append(std::string(1, quote));
  return out;
}

/// Into one text: texts within texts within texts would be copied at each level.
void write_repr(const Value& value, Text& out) {
  check_text(out.bytes.size());
  if (value.is_undefined())
    out.append("Undefined");
  else if (const Text* text = value.as_text())
    out.append(text_repr(*text));
  else if (const List* list = value.as_list())
    write_list(*list, out);
  else if (const Dict* dict = value.as_dict())
    write_dict(*dict, out);
  else
    out.append(to_text(value));
}

/// Equal values have the same.
std::size_t hash_of(const Value& value) {
  double number = 0;
  if (value.number(number)) return std::hash<double>()(number);
  if (const Text* text = value.as_text()) return std::hash<std::string_view>()(text->bytes);
  std::size_t hash = 0;
  if (const List* list = value.as_list())
    for (const Value& item : list->items) hash = hash * 31 + hash_of(item);
  return hash;
}

}  // namespace

int depth_of(const Value& value) {
  if (const List* list = value.as_list()) return list->depth;
  if (const Dict* dict = value.as_dict()) return dict->depth;
  if (const Callable* callable = value.as_callable()) return callable->depth;
  return 0;
}

std::size_t weight_of(const Value& value) {
  if (const Text* text = value.as_text()) return 1 + text->bytes.size() / 16 + text->literal.size();
  if (const List* list = value.as_list()) return list->weight;
  if (const Dict* dict = value.as_dict()) return dict->weight;
  return 1;
}

Value::Value(List list) {
  int depth = 0;
  std::size_t weight = 1;
  for (const Value& item : list.items) {
    depth = std::max(depth, depth_of(item));
    weight = checked_weight(weight + weight_of(item));
  }
  list.depth = checked_depth(depth);
  list.weight = weight;
  data_ = std::make_shared<const List>(std::move(list));
}

Value::Value(Dict dict) {
  int depth = 0;
  std::size_t weight = 1;
  for (const auto& [key, value] : dict.items) {
    depth = std::max({depth, depth_of(key), depth_of(value)});
    weight = checked_weight(weight + weight_of(key) + weight_of(value));
  }
  dict.depth = checked_depth(depth);
  dict.weight = weight;
  data_ = std::make_shared<const Dict>(std::move(dict));
}

bool Value::integer(std::int64_t& value) const {
  if (const bool* flag = as_bool())
    value = *flag ? 1 : 0;
  else if (const std::int64_t* number = as_int())
    value = *number;
  else
    return false;
  return true;
}

bool Value::number(double& value) const {
  std::int64_t whole = 0;
  if (integer(whole))
    value = static_cast<double>(whole);
  else if (const double* real = as_float())
    value = *real;
  else
    return false;
  return true;
}

/// Where the key is that `same` says yes to; items.size(): nowhere.
template <class Same>
std::size_t Dict::place(std::size_t hash, Same same) const {
  if (places_.empty()) {
    std::size_t i = 0;
    while (i < items.size() && !same(items[i].first)) ++i;
    return i;
  }
  for (auto [at, end] = places_.equal_range(hash); at != end; ++at)
    if (same(items[at->second].first)) return at->second;
  return items.size();
}

const Value* Dict::find(std::string_view key) const {
  const std::size_t at =
      place(places_.empty() ? 0 : std::hash<std::string_view>()(key), [&](const Value& name) {
        const Text* text = name.as_text();
        return text != nullptr && text->bytes == key;
      });
  return at < items.size() ? &items[at].second : nullptr;
}

const Value* Dict::find(const Value& key) const {
  const std::size_t at =
      place(places_.empty() ? 0 : hash_of(key), [&](const Value& name) { return equal(name, key); });
  return at < items.size() ? &items[at].second : nullptr;
}

void Dict::set(Value key, Value value) {
  constexpr std::size_t kMany = 16;
  const std::size_t hash = places_.empty() ? 0 : hash_of(key);
  if (const std::size_t at = place(hash, [&](const Value& name) { return equal(name, key); });
      at < items.size()) {
    items[at].second = std::move(value);
    return;
  }
  items.emplace_back(std::move(key), std::move(value));
  if (items.size() < kMany) return;
  for (std::size_t i = places_.size(); i < items.size(); ++i) places_.emplace(hash_of(items[i].first), i);
}

bool truth(const Value& value) {
  if (const bool* flag = value.as_bool()) return *flag;
  if (value.is_undefined() || value.is_none()) return false;
  if (const std::int64_t* number = value.as_int()) return *number != 0;
  if (const double* real = value.as_float()) return *real != 0;
  if (const Text* text = value.as_text()) return !text->bytes.empty();
  if (const List* list = value.as_list()) return !list->sized() || !list->items.empty();
  if (const Dict* dict = value.as_dict()) return !dict->items.empty();
  return true;
}

bool equal(const Value& a, const Value& b) {
  std::int64_t i = 0, j = 0;
  if (a.integer(i) && b.integer(j)) return i == j;
  double x = 0, y = 0;
  if (a.number(x) && b.number(y)) return x == y;
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.as_text() && b.as_text()) return a.as_text()->bytes == b.as_text()->bytes;
  const List *l = a.as_list(), *m = b.as_list();
  if (l != nullptr && m != nullptr) {
    if (l == m) return true;
    return l->form == m->form && l->indexed() &&
           std::equal(l->items.begin(), l->items.end(), m->items.begin(), m->items.end(),
                      [](const Value& v, const Value& w) { return equal(v, w); });
  }
  const Dict *d = a.as_dict(), *e = b.as_dict();
  if (d != nullptr && e != nullptr)
    return d->items.size() == e->items.size() &&
           std::all_of(d->items.begin(), d->items.end(), [&](const auto& item) {
             const Value* other = e->find(item.first);
             return other != nullptr && equal(item.second, *other);
           });
  if (a.as_namespace() != nullptr) return a.as_namespace() == b.as_namespace();
  return a.as_callable() != nullptr && a.as_callable() == b.as_callable();
}

int compare(const Value& a, const Value& b) {
  std::int64_t i = 0, j = 0;
  if (a.integer(i) && b.integer(j)) return i < j ? -1 : i > j ? 1 : 0;
  double x = 0, y = 0;
  if (a.number(x) && b.number(y)) return three_way(x, y);
  if (a.as_text() && b.as_text()) {
    const int order = a.as_text()->bytes.compare(b.as_text()->bytes);
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  const List *l = a.as_list(), *m = b.as_list();
  if (l != nullptr && m != nullptr && l->form == m->form && l->indexed()) {
    for (std::size_t k = 0; k < std::min(l->items.size(), m->items.size()); ++k)
      if (!equal(l->items[k], m->items[k])) return compare(l->items[k], m->items[k]);
    return three_way(static_cast<double>(l->items.size()), static_cast<double>(m->items.size()));
  }
  fail(ML_E_FORMAT, "{} and {} have no order", type_name(a), type_name(b));
}

const char* type_name(const Value& value) {
  if (value.is_undefined()) return "undefined";
  if (value.is_none()) return "None";
  if (value.as_bool()) return "bool";
  if (value.as_int()) return "int";
  if (value.as_float()) return "float";
  if (value.as_text()) return "str";
  if (value.as_dict()) return "dict";
  if (const List* list = value.as_list()) {
    const char* names[] = {"list", "tuple", "range", "generator", "dict view"};
    return names[static_cast<int>(list->form)];
  }
  return value.as_namespace() ? "namespace" : value.as_loop() ? "loop" : "function";
}

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  const std::size_t e = text.find('e');
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const auto fixed = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed).ptr;
  std::string out(buffer, fixed);
  return out.find('.') == std::string::npos ? out + ".0" : out;
}

Text repr(const Value& value) {
  Text out;
  write_repr(value, out);
  return out;
}

Text to_text(const Value& value) {
  if (const Text* text = value.as_text()) return *text;
  if (value.is_undefined()) return {};
  if (value.is_none()) return Text("None");
  if (const bool* flag = value.as_bool()) return Text(*flag ? "True" : "False");
  if (const std::int64_t* number = value.as_int()) return Text(std::to_string(*number));
  if (const double* real = value.as_float()) return Text(float_repr(*real));
  if (value.as_list() != nullptr || value.as_dict() != nullptr) {
    Text out;
    write_repr(value, out);
    return out;
  }
  if (value.as_namespace() != nullptr) return Text("<Namespace>");
  if (const Loop* loop = value.as_loop())
    return Text(fmt::format("<LoopContext {}/{}>", loop->index0 + 1, loop->items->size()));
  return Text(fmt::format("<function {}>", value.as_callable()->name));
}

}  // namespace krafla::jinja
