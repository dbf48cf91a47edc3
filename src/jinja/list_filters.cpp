// Filters over what can be gone through: lists, dicts, generators.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "jinja/interpreter.h"

namespace krafla::jinja {
namespace {

/// a.b.0 of a value, as Jinja's filters look attributes up.
Value nested_attribute(Interpreter& in, Value value, const Value& path) {
  std::int64_t index = 0;
  if (path.integer(index)) return in.item(value, path);
  std::string_view rest = text_argument("attribute", &path).bytes;
  while (true) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    const std::string part(rest.substr(0, dot));
    in.spend(1 + part.size() / 16);
    const bool number =
        !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
    value = in.item(value, number ? Value(static_cast<std::int64_t>(std::stol(part))) : Value::text(part));
    if (dot == rest.size()) return value;
    rest.remove_prefix(dot + 1);
  }
}

/// What sort, unique, min ... compare: the attribute, in lower case unless case counts.
Value sort_key(Interpreter& in, const Value& value, const Value* attribute, bool case_sensitive) {
  Value key = attribute == nullptr || attribute->is_none() ? value : nested_attribute(in, value, *attribute);
  in.spend(weight_of(key));
  return !case_sensitive && key.as_text() != nullptr ? Value(with_case(*key.as_text(), Case::kLower)) : key;
}

Value generator(std::vector<Value> items) {
  return List{.items = std::move(items), .form = List::Form::kGenerator};
}

/// Stable, by keys made once. ML_E_FORMAT where keys have no order.
std::vector<Value> sorted(Interpreter& in, const std::vector<Value>& items, const std::vector<Value>& keys,
                          bool reverse) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    in.spend(1 + std::min(weight_of(keys[a]), weight_of(keys[b])));
    return compare(keys[reverse ? b : a], keys[reverse ? a : b]) < 0;
  });
  std::vector<Value> result;
  result.reserve(order.size());
  for (const std::size_t i : order) result.push_back(items[i]);
  return result;
}

Value sort(Interpreter& in, const Value& input, Arguments& arguments) {
  const auto bound = bind("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const std::vector<Value> items = in.iterate(input);
  std::vector<Value> keys;
  keys.reserve(items.size());
  for (const Value& item : items)
    keys.push_back(sort_key(in, item, bound[2], flag_argument(bound[1], false)));
  return List{.items = sorted(in, items, keys, flag_argument(bound[0], false))};
}

Value dictsort(Interpreter& in, const Value& input, Arguments& arguments) {
  const auto bound = bind("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const Dict* dict = input.as_dict();
  if (dict == nullptr) fail(ML_E_FORMAT, "dictsort needs a dict, not {}", type_name(input));
  const std::string_view by =
      bound[1] == nullptr ? std::string_view("key") : text_argument("dictsort", bound[1]).bytes;
  std::vector<Value> items, keys;
  in.spend_values(dict->items.size());
  for (const auto& [key, value] : dict->items) {
    items.emplace_back(List{.items = {key, value}, .form = List::Form::kTuple});
    keys.push_back(sort_key(in, by == "key" ? key : value, nullptr, flag_argument(bound[0], false)));
  }
  return List{.items = sorted(in, items, keys, flag_argument(bound[2], false))};
}

Value unique(Interpreter& in, const Value& input, Arguments& arguments) {
  const auto bound = bind("unique", arguments, {"case_sensitive", "attribute"});
  std::vector<Value> items, seen;
  for (const Value& item : in.iterate(input)) {
    Value key = sort_key(in, item, bound[1], flag_argument(bound[0], false));
    in.spend(seen.size() * weight_of(key));
    if (std::any_of(seen.begin(), seen.end(), [&](const Value& other) { return equal(other, key); }))
      continue;
    seen.push_back(std::move(key));
    items.push_back(item);
  }
  return generator(std::move(items));
}

Value extreme(const char* name, Interpreter& in, const Value& input, Arguments& arguments, int wanted) {
  const auto bound = bind(name, arguments, {"case_sensitive", "attribute"});
  const std::vector<Value> items = in.iterate(input);
  if (items.empty()) return Value::undefined(fmt::format("the {} of nothing", name));
  std::size_t best = 0;
  Value best_key;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Value key = sort_key(in, items[i], bound[1], flag_argument(bound[0], false));
    if (i > 0) in.spend_comparison(key, best_key);
    if (i > 0 && compare(key, best_key) * wanted <= 0) continue;
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}

Value length(Interpreter& in, const Value& input, Arguments&) {
  if (const Text* text = input.as_text()) {
    in.spend(text->bytes.size() / 16);
    return static_cast<std::int64_t>(count_characters(text->bytes));
  }
  if (const List* list = input.as_list(); list != nullptr && list->sized())
    return static_cast<std::int64_t>(list->items.size());
  if (const Dict* dict = input.as_dict()) return static_cast<std::int64_t>(dict->items.size());
  if (input.is_undefined()) return std::int64_t{0};
  fail(ML_E_FORMAT, "a {} has no length", type_name(input));
}

Value fallback(Interpreter&, const Value& input, Arguments& arguments) {
  const auto bound = bind("default", arguments, {"default_value", "boolean"});
  const bool missing = input.is_undefined() || (flag_argument(bound[1], false) && !truth(input));
  return !missing ? input : bound[0] == nullptr ? Value::text("") : *bound[0];
}

Value join(Interpreter& in, const Value& input, Arguments& arguments) {
  const auto bound = bind("join", arguments, {"d", "attribute"});
  const Text separator = bound[0] == nullptr ? Text() : in.text(*bound[0]);
  Text out;
  bool first = true;
  for (const Value& item : in.iterate(input)) {
    if (!first) out.append(separator);
    first = false;
    out.append(in.text(bound[1] == nullptr ? item : nested_attribute(in, item, *bound[1])));
    in.spend(separator.bytes.size() / 16 + separator.literal.size());
    check_text(out.bytes.size());
  }
  return out;
}

Value first(Interpreter& in, const Value& input, Arguments&) {
  const std::vector<Value> items = in.iterate(input);
  return items.empty() ? Value::undefined("the first of nothing") : items.front();
}
Value last(Interpreter& in, const Value& input, Arguments&) {
  if (input.as_list() != nullptr && !input.as_list()->sized())
    fail(ML_E_FORMAT, "last needs a sequence, not a generator");
  const std::vector<Value> items = in.iterate(input);
  return items.empty() ? Value::undefined("the last of nothing") : items.back();
}

Value list(Interpreter& in, const Value& input, Arguments&) { return List{.items = in.iterate(input)}; }

Value items(Interpreter& in, const Value& input, Arguments&) {
  if (input.is_undefined()) return generator({});
  if (input.as_dict() == nullptr) fail(ML_E_FORMAT, "items needs a dict, not {}", type_name(input));
  Arguments none;
  return generator(in.iterate(in.call(method(input, "items"), none)));
}

Value reverse(Interpreter& in, const Value& input, Arguments&) {
  if (const Text* text = input.as_text()) {
    const auto offsets = character_offsets(text->bytes);
    in.spend(offsets.size());
    Text out;
    for (std::size_t i = offsets.size() - 1; i > 0; --i) out.append(*text, offsets[i - 1], offsets[i]);
    return out;
  }
  std::vector<Value> all = in.iterate(input);
  std::reverse(all.begin(), all.end());
  return generator(std::move(all));
}

Value sum(Interpreter& in, const Value& input, Arguments& arguments) {
  const auto bound = bind("sum", arguments, {"attribute", "start"});
  Value total = bound[1] == nullptr ? Value(std::int64_t{0}) : *bound[1];
  for (const Value& item : in.iterate(input))
    total = in.arithmetic(
        "+", total,
        bound[0] == nullptr || bound[0]->is_none() ? item : nested_attribute(in, item, *bound[0]));
  return total;
}

Value batch(Interpreter& in, const Value& input, Arguments& arguments) {
  const auto bound = bind("batch", arguments, {"linecount", "fill_with"});
  const auto n =
      static_cast<std::size_t>(std::clamp<std::int64_t>(integer_argument("batch", bound[0], 1), 1, 1000000));
  std::vector<Value> rows;
  List row;
  for (Value& item : in.iterate(input)) {
    if (row.items.empty()) in.spend_values(1);
    row.items.push_back(std::move(item));
    if (row.items.size() == n) rows.emplace_back(std::exchange(row, List()));
  }
  if (!row.items.empty()) {
    if (bound[1] != nullptr && !bound[1]->is_none()) {
      in.spend(n);
      row.items.resize(n, *bound[1]);
    }
    rows.emplace_back(std::move(row));
  }
  return generator(std::move(rows));
}

Value groupby(Interpreter& in, const Value& input, Arguments& arguments) {
  const auto bound = bind("groupby", arguments, {"attribute", "default", "case_sensitive"});
  if (bound[0] == nullptr) fail(ML_E_FORMAT, "groupby needs an attribute");
  const std::vector<Value> all = in.iterate(input);
  std::vector<Value> keys;
  for (const Value& item : all) {
    Value key = nested_attribute(in, item, *bound[0]);
    if (key.is_undefined() && bound[1] != nullptr) key = *bound[1];
    keys.push_back(sort_key(in, key, nullptr, flag_argument(bound[2], false)));
  }
  std::vector<Value> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  List groups;
  const std::vector<Value> by_key = sorted(in, order, keys, false);
  for (std::size_t at = 0; at < by_key.size();) {
    const auto index = [&](std::size_t k) { return static_cast<std::size_t>(*by_key[k].as_int()); };
    in.spend_values(2);
    List group;
    const std::size_t start = at;
    for (; at < by_key.size() && equal(keys[index(at)], keys[index(start)]); ++at)
      group.items.push_back(all[index(at)]);
    const Value grouper = nested_attribute(in, group.items.front(), *bound[0]);
    const Value shown = grouper.is_undefined() ? keys[index(start)] : grouper;
    groups.items.emplace_back(List{.items = {shown, std::move(group)}, .form = List::Form::kTuple});
  }
  return groups;
}

/// The arguments but the first `n`.
Arguments rest_of(const Arguments& arguments, std::size_t n) {
  Arguments rest;
  for (std::size_t i = n; i < arguments.values.size(); ++i) rest.values.push_back(arguments.values[i]);
  rest.named = arguments.named;
  return rest;
}

Value map(Interpreter& in, const Value& input, Arguments& arguments) {
  std::vector<Value> out;
  if (!truth(input)) return generator({});  // also none, which cannot be gone through
  if (arguments.values.empty()) {
    const auto bound = bind("map", arguments, {"attribute", "default"});
    if (bound[0] == nullptr) fail(ML_E_FORMAT, "map needs a filter or an attribute");
    for (const Value& item : in.iterate(input)) {
      Value value = nested_attribute(in, item, *bound[0]);
      out.push_back(value.is_undefined() && bound[1] != nullptr ? *bound[1] : value);
    }
    return generator(std::move(out));
  }
  const std::string name = text_argument("map", &arguments.values[0]).bytes;
  for (const Value& item : in.iterate(input)) {
    Arguments rest = rest_of(arguments, 1);
    in.spend(1 + rest.values.size() + rest.named.size());
    out.push_back(in.filter(name, item, rest));
  }
  return generator(std::move(out));
}

/// select, reject and their attr forms: items whose value, or attribute, passes a test (or is true).
Value selected(Interpreter& in, const Value& input, const Arguments& arguments, bool wanted,
               bool by_attribute) {
  const std::size_t skip = by_attribute ? 1 : 0;
  if (arguments.values.size() < skip) fail(ML_E_FORMAT, "selectattr and rejectattr need an attribute");
  std::vector<Value> out;
  if (!truth(input)) return generator({});
  for (const Value& item : in.iterate(input)) {
    const Value value = by_attribute ? nested_attribute(in, item, arguments.values[0]) : item;
    bool passes = false;
    if (arguments.values.size() > skip) {
      Arguments rest = rest_of(arguments, skip + 1);
      passes = in.test(text_argument("select", &arguments.values[skip]).bytes, value, rest);
    } else {
      passes = truth(value);
    }
    in.spend(1 + arguments.values.size() + arguments.named.size());
    if (passes == wanted) out.push_back(item);
  }
  return generator(std::move(out));
}

Value attr(Interpreter& in, const Value& input, Arguments& arguments) {
  const auto bound = bind("attr", arguments, {"name"});
  if (input.as_dict() != nullptr) return method(input, text_argument("attr", bound[0]).bytes);
  return in.attribute(input, text_argument("attr", bound[0]).bytes);
}

struct Named {
  std::string_view name;
  Filter filter;
};
constexpr Named kFilters[] = {
    {"sort", sort},
    {"dictsort", dictsort},
    {"unique", unique},
    {"length", length},
    {"count", length},
    {"default", fallback},
    {"d", fallback},
    {"join", join},
    {"first", first},
    {"last", last},
    {"list", list},
    {"items", items},
    {"reverse", reverse},
    {"sum", sum},
    {"batch", batch},
    {"groupby", groupby},
    {"map", map},
    {"attr", attr},
    {"min", [](Interpreter& in, const Value& v, Arguments& a) { return extreme("min", in, v, a, -1); }},
    {"max", [](Interpreter& in, const Value& v, Arguments& a) { return extreme("max", in, v, a, 1); }},
    {"select", [](Interpreter& in, const Value& v, Arguments& a) { return selected(in, v, a, true, false); }},
    {"reject",
     [](Interpreter& in, const Value& v, Arguments& a) { return selected(in, v, a, false, false); }},
    {"selectattr",
     [](Interpreter& in, const Value& v, Arguments& a) { return selected(in, v, a, true, true); }},
    {"rejectattr",
     [](Interpreter& in, const Value& v, Arguments& a) { return selected(in, v, a, false, true); }},
};

}  // namespace

Filter find_list_filter(std::string_view name) {
  for (const Named& known : kFilters)
    if (known.name == name) return known.filter;
  return nullptr;
}

}  // namespace krafla::jinja
