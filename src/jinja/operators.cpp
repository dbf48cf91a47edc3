// Attributes, items, slices and arithmetic, as Python and Jinja mean them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "jinja/interpreter.h"

namespace krafla::jinja {
namespace {

Value loop_attribute(const Loop& loop, const std::string& name) {
  const auto n = static_cast<std::int64_t>(loop.items->size()), i = static_cast<std::int64_t>(loop.index0);
  if (name == "index") return i + 1;
  if (name == "index0") return i;
  if (name == "first") return i == 0;
  if (name == "last") return i + 1 == n;
  if (name == "length") return n;
  if (name == "revindex") return n - i;
  if (name == "revindex0") return n - i - 1;
  if (name == "depth") return static_cast<std::int64_t>(loop.depth0 + 1);
  if (name == "depth0") return static_cast<std::int64_t>(loop.depth0);
  if (name == "previtem") return i > 0 ? (*loop.items)[loop.index0 - 1] : Value::undefined("loop.previtem");
  if (name == "nextitem")
    return i + 1 < n ? (*loop.items)[loop.index0 + 1] : Value::undefined("loop.nextitem");
  return Value::undefined(fmt::format("'loop.{}'", name));
}

Value loop_method(Loop& loop, const std::string& name) {
  if (name == "cycle")
    return std::make_shared<const Callable>(
        Callable{"cycle", [&loop](Interpreter&, Arguments& arguments) {
                   if (arguments.values.empty()) fail(ML_E_FORMAT, "loop.cycle needs values");
                   return arguments.values[loop.index0 % arguments.values.size()];
                 }});
  if (name == "changed")
    return std::make_shared<const Callable>(
        Callable{"changed", [&loop](Interpreter& in, Arguments& arguments) -> Value {
                   Value seen = List{.items = std::move(arguments.values)};
                   in.spend_comparison(seen, loop.changed);
                   const bool changed = !equal(seen, loop.changed);
                   loop.changed = std::move(seen);
                   return changed;
                 }});
  return loop_attribute(loop, name);
}

[[noreturn]] void refuse(const std::string& op, const Value& a, const Value& b) {
  fail(ML_E_FORMAT, "{} has no meaning between {} and {}", op, type_name(a), type_name(b));
}
[[noreturn]] void overflow() { fail(ML_E_FORMAT, "an integer outside of 64 bits"); }

std::int64_t floor_divided(std::int64_t a, std::int64_t b) {
  if (b == 0) fail(ML_E_FORMAT, "division by zero");
  if (b == -1) {
    if (a == std::numeric_limits<std::int64_t>::min()) overflow();
    return -a;
  }
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

std::int64_t multiplied(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) overflow();
  return result;
}

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if (exponent & 1) result = multiplied(result, base);
    exponent >>= 1;
    if (exponent > 0) base = multiplied(base, base);
  }
  return result;
}

Value of_integers(char op, bool twice, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (op) {
    case '+':
      if (__builtin_add_overflow(a, b, &result)) overflow();
      return result;
    case '-':
      if (__builtin_sub_overflow(a, b, &result)) overflow();
      return result;
    case '*':
      if (!twice) return multiplied(a, b);
      if (b >= 0) return integer_power(a, b);
      if (a == 0) fail(ML_E_FORMAT, "division by zero");
      return std::pow(static_cast<double>(a), static_cast<double>(b));
    case '/':
      if (twice) return floor_divided(a, b);
      if (b == 0) fail(ML_E_FORMAT, "division by zero");
      return static_cast<double>(a) / static_cast<double>(b);
    default:
      if (b == -1) return std::int64_t{0};
      return a - floor_divided(a, b) * b;
  }
}

Value of_floats(char op, bool twice, double a, double b) {
  if ((op == '/' || op == '%') && b == 0) fail(ML_E_FORMAT, "division by zero");
  double rest = 0;
  switch (op) {
    case '+': return a + b;
    case '-': return a - b;
    case '*': return twice ? std::pow(a, b) : a * b;
    case '/':
      if (!twice) return a / b;
      rest = std::fmod(a, b);
      return std::round((a - (rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest)) / b);
    default:
      rest = std::fmod(a, b);
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : std::copysign(rest, rest == 0 ? b : rest);
  }
}

Text joined(const Text& a, const Text& b) {
  Text result = a.markup || !b.markup ? a : escaped(a);
  result.append(b.markup || !a.markup ? b : escaped(b));
  result.markup = a.markup || b.markup;
  return result;
}

Value repeated(Interpreter& in, const Value& value, std::int64_t times) {
  const auto n = static_cast<std::uint64_t>(std::max<std::int64_t>(times, 0));
  const Text* text = value.as_text();
  const std::uint64_t size = text != nullptr ? text->bytes.size() : weight_of(value);
  if (n > 0 && size > (std::uint64_t{1} << 40) / n)
    fail(ML_E_FORMAT, "{} times {} is too large", type_name(value), n);
  in.spend(text != nullptr ? n * (size / 16 + text->literal.size()) + n * size / 256 : n * size);
  if (text != nullptr) {
    check_text(n * size);
    Text result;
    for (std::uint64_t i = 0; size > 0 && i < n; ++i) result.append(*text);
    result.markup = text->markup;
    return result;
  }
  List list;
  list.form = value.as_list()->form;
  for (std::uint64_t i = 0; i < n; ++i)
    list.items.insert(list.items.end(), value.as_list()->items.begin(), value.as_list()->items.end());
  return list;
}

bool repeatable(const Value& value) {
  const List* list = value.as_list();
  return value.as_text() != nullptr ||
         (list != nullptr && (list->form == List::Form::kList || list->form == List::Form::kTuple));
}

/// Positions a slice takes, for a sequence of n.
std::vector<std::size_t> slice_positions(std::int64_t n, const Value& start, const Value& stop,
                                         const Value& step) {
  const auto number = [](const Value& value, std::int64_t otherwise) {
    std::int64_t given = otherwise;
    if (!value.is_none() && !value.integer(given))
      fail(ML_E_FORMAT, "a slice's bounds are integers, not {}", type_name(value));
    return given;
  };
  const std::int64_t by = number(step, 1);
  if (by == 0) fail(ML_E_FORMAT, "a slice's step cannot be 0");
  const std::int64_t low = by > 0 ? 0 : -1, high = by > 0 ? n : n - 1;
  const auto bound = [&](const Value& value, std::int64_t otherwise) {
    if (value.is_none()) return otherwise;
    const std::int64_t at = number(value, 0);
    return std::clamp(at < 0 ? (at < -n ? -1 - n + n : at + n) : at, low, high);
  };
  const std::int64_t first = bound(start, by > 0 ? 0 : n - 1), last = bound(stop, by > 0 ? n : -1);
  std::vector<std::size_t> positions;
  for (std::int64_t i = first; by > 0 ? i < last : i > last;) {
    positions.push_back(static_cast<std::size_t>(i));
    if (__builtin_add_overflow(i, by, &i)) break;
  }
  return positions;
}

}  // namespace

Value Interpreter::attribute(const Value& value, const std::string& name) {
  if (value.is_undefined()) {
    const auto& what = value.undefined_data().what;
    fail(ML_E_FORMAT, "{} is undefined", what ? *what : "a value");
  }
  if (Loop* loop = value.as_loop()) return loop_method(*loop, name);
  if (const Namespace* space = value.as_namespace()) {
    const Value* member = space->members.find(name);
    return member != nullptr ? *member : Value::undefined(fmt::format("the namespace's '{}'", name));
  }
  if (const Callable* callable = value.as_callable()) {
    for (const auto& [known, member] : callable->members)
      if (known == name) return member;
    return Value::undefined(fmt::format("'{}.{}'", callable->name, name));
  }
  Value found = method(value, name);
  if (!found.is_undefined()) return found;
  const Dict* dict = value.as_dict();
  const Value* member = dict != nullptr ? dict->find(name) : nullptr;
  return member != nullptr ? *member : Value::undefined(fmt::format("{}'s '{}'", type_name(value), name));
}

Value Interpreter::item(const Value& value, const Value& key) {
  if (value.is_undefined()) return attribute(value, "");
  spend(weight_of(key));
  if (const Dict* dict = value.as_dict())
    if (const Value* found = dict->find(key)) return *found;
  const List* list = value.as_list();
  const Text* text = value.as_text();
  std::int64_t at = 0;
  if (key.integer(at) && ((list != nullptr && list->indexed()) || text != nullptr)) {
    const std::vector<std::size_t> offsets =
        text != nullptr ? character_offsets(text->bytes) : std::vector<std::size_t>();
    if (text != nullptr) spend(offsets.size() / 16);
    const auto n = static_cast<std::int64_t>(text != nullptr ? offsets.size() - 1 : list->items.size());
    if (at < 0) at += n;
    if (at < 0 || at >= n) return Value::undefined(fmt::format("the {}'s item {}", type_name(value), at));
    const auto i = static_cast<std::size_t>(at);
    return text != nullptr ? Value(text->slice(offsets[i], offsets[i + 1])) : list->items[i];
  }
  if (key.as_text() != nullptr) return attribute(value, key.as_text()->bytes);
  return Value::undefined(fmt::format("an item of {}", type_name(value)));
}

Value Interpreter::slice(const Expr& expr, Frame& frame) {
  const Value value = evaluate(*expr.parts[0], frame);
  Value bounds[3] = {None{}, None{}, None{}};
  for (int i = 0; i < 3; ++i)
    if (expr.parts[static_cast<std::size_t>(i) + 1])
      bounds[i] = evaluate(*expr.parts[static_cast<std::size_t>(i) + 1], frame);
  line_ = expr.line;
  if (value.is_undefined()) attribute(value, "");
  if (const Text* text = value.as_text()) {
    const std::vector<std::size_t> offsets = character_offsets(text->bytes);
    spend(1 + offsets.size() / 16);
    Text result;
    result.markup = text->markup;
    const auto positions =
        slice_positions(static_cast<std::int64_t>(offsets.size()) - 1, bounds[0], bounds[1], bounds[2]);
    spend(positions.size() / 4);
    for (const std::size_t i : positions) result.append(*text, offsets[i], offsets[i + 1]);
    return result;
  }
  const List* list = value.as_list();
  if (list == nullptr || !list->indexed())
    return Value::undefined(fmt::format("a slice of {}", type_name(value)));
  List result;
  if (list->form == List::Form::kTuple) result.form = List::Form::kTuple;
  for (const std::size_t i :
       slice_positions(static_cast<std::int64_t>(list->items.size()), bounds[0], bounds[1], bounds[2]))
    result.items.push_back(list->items[i]);
  spend(result.items.size());
  return result;
}

Value Interpreter::negated(const Value& value, bool negative) {
  if (value.is_undefined()) attribute(value, "");
  std::int64_t whole = 0;
  if (value.integer(whole)) return negative ? of_integers('-', false, 0, whole) : Value(whole);
  if (const double* real = value.as_float()) return negative ? -*real : *real;
  fail(ML_E_FORMAT, "a sign has no meaning before {}", type_name(value));
}

Value Interpreter::arithmetic(const std::string& op, const Value& a, const Value& b) {
  if (a.is_undefined() || b.is_undefined()) attribute(a.is_undefined() ? a : b, op);
  std::int64_t i = 0, j = 0;
  if (a.integer(i) && b.integer(j)) return of_integers(op[0], op.size() > 1, i, j);
  double x = 0, y = 0;
  if (a.number(x) && b.number(y)) return of_floats(op[0], op.size() > 1, x, y);
  if (op == "%" && a.as_text() != nullptr) return format_percent(*this, *a.as_text(), b);
  if (op == "*" && repeatable(a) && b.integer(j)) return repeated(*this, a, j);
  if (op == "*" && repeatable(b) && a.integer(i)) return repeated(*this, b, i);
  if (op != "+") refuse(op, a, b);
  spend(weight_of(a) + weight_of(b));
  if (a.as_text() != nullptr && b.as_text() != nullptr) {
    check_text(a.as_text()->bytes.size() + b.as_text()->bytes.size());
    return joined(*a.as_text(), *b.as_text());
  }
  const List *l = a.as_list(), *m = b.as_list();
  if (l == nullptr || m == nullptr || l->form != m->form || !repeatable(a)) refuse(op, a, b);
  List result;
  result.form = l->form;
  result.items = l->items;
  result.items.insert(result.items.end(), m->items.begin(), m->items.end());
  return result;
}

bool Interpreter::contains(const Value& container, const Value& value) {
  spend(weight_of(container));
  if (const Text* text = container.as_text()) {
    if (value.as_text() == nullptr) fail(ML_E_FORMAT, "'in' a str looks for a str, not {}", type_name(value));
    spend_search(text->bytes.size(), value.as_text()->bytes.size());
    return text->bytes.find(value.as_text()->bytes) != std::string::npos;
  }
  if (const Dict* dict = container.as_dict()) return dict->find(value) != nullptr;
  if (container.is_undefined()) return false;
  if (container.as_list() == nullptr) fail(ML_E_FORMAT, "'in' has no meaning for {}", type_name(container));
  const std::vector<Value> items = iterate(container);
  return std::any_of(items.begin(), items.end(), [&](const Value& item) { return equal(item, value); });
}

std::vector<Value> Interpreter::iterate(const Value& value) {
  std::vector<Value> items;
  if (const List* list = value.as_list()) {
    if (list->form == List::Form::kGenerator && std::exchange(list->used, true)) return items;
    items = list->items;
  } else if (const Dict* dict = value.as_dict()) {
    for (const auto& item : dict->items) items.push_back(item.first);
  } else if (const Text* text = value.as_text()) {
    spend_values(count_characters(text->bytes));
    const std::vector<std::size_t> offsets = character_offsets(text->bytes);
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i)
      items.emplace_back(text->slice(offsets[i], offsets[i + 1]));
  } else if (!value.is_undefined()) {
    fail(ML_E_FORMAT, "a value of type {} is nothing to go through", type_name(value));
  }
  spend(items.size());
  return items;
}

}  // namespace krafla::jinja
