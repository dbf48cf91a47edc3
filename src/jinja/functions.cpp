// What every template can call: range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "jinja/interpreter.h"

namespace krafla::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100000;  // Jinja's sandbox allows no more

Value function(const char* name, Value (*call)(Interpreter&, Arguments&)) {
  return std::make_shared<const Callable>(Callable{name, call});
}

Value range(Interpreter& in, Arguments& arguments) {
  const auto bound = bind("range", arguments, {"start", "stop", "step"});
  List list;
  list.form = List::Form::kRange;
  list.start = bound[1] == nullptr ? 0 : integer_argument("range", bound[0], 0);
  list.stop = integer_argument("range", bound[1] == nullptr ? bound[0] : bound[1], 0);
  list.step = integer_argument("range", bound[2], 1);
  if (bound[0] == nullptr || list.step == 0)
    fail(ML_E_FORMAT, "range needs an end, and a step that is not 0");
  for (std::int64_t i = list.start; list.step > 0 ? i < list.stop : i > list.stop;) {
    list.items.emplace_back(i);
    if (static_cast<std::int64_t>(list.items.size()) > kMaxRange)
      fail(ML_E_FORMAT, "range: more than {} numbers", kMaxRange);
    if (__builtin_add_overflow(i, list.step, &i)) break;
  }
  in.spend(list.items.size());
  return list;
}

/// dict(mapping or pairs, name=value ...), also the members of namespace().
Dict dict_of(Interpreter& in, Arguments& arguments) {
  Dict dict;
  if (!arguments.values.empty()) {
    const Value& first = arguments.values[0];
    if (const Dict* given = first.as_dict())
      for (const auto& [key, value] : given->items) dict.set(key, value);
    else
      for (const Value& pair : in.iterate(first)) {
        const std::vector<Value> two = in.iterate(pair);
        if (two.size() != 2) fail(ML_E_FORMAT, "dict: an item of {} values; pairs are needed", two.size());
        dict.set(two[0], two[1]);
      }
  }
  for (auto& [name, value] : arguments.named) dict.set(Value::text(name), value);
  in.spend(4 * dict.items.size());
  return dict;
}

Value make_dict(Interpreter& in, Arguments& arguments) { return dict_of(in, arguments); }

Value make_namespace(Interpreter& in, Arguments& arguments) {
  Dict members = dict_of(in, arguments);
  Namespace* space = in.make_namespace();
  space->members = std::move(members);
  return space;
}

Value raise_exception(Interpreter& in, Arguments& arguments) {
  const auto bound = bind("raise_exception", arguments, {"message"});
  fail(ML_E_ARG, "{}", bound[0] == nullptr ? std::string() : in.text(*bound[0]).bytes.substr(0, 4096));
}

Value strftime_now(Interpreter& in, Arguments& arguments) {
  const auto bound = bind("strftime_now", arguments, {"format"});
  const Text& format = text_argument("strftime_now", bound[0]);
  const std::tm now = in.now();
  std::array<char, 1024> buffer{};
  const std::size_t size = std::strftime(buffer.data(), buffer.size(), format.bytes.c_str(), &now);
  return Text(std::string(buffer.data(), size));
}

/// cycler(a, b ...): next(), reset(), current.
Value cycler(Interpreter& in, Arguments& arguments) {
  if (arguments.values.empty()) fail(ML_E_FORMAT, "cycler needs values");
  Namespace* state = in.make_namespace();
  Namespace* self = in.make_namespace();
  self->members.set(Value::text("current"), arguments.values[0]);
  state->members.set(Value::text("at"), std::int64_t{0});
  state->members.set(Value::text("items"), List{.items = arguments.values});
  const auto go = [state, self](bool reset) {
    const List& items = *state->members.find("items")->as_list();
    const auto at = static_cast<std::size_t>(*state->members.find("at")->as_int());
    const std::size_t next = reset ? 0 : (at + 1) % items.items.size();
    state->members.set(Value::text("at"), static_cast<std::int64_t>(next));
    self->members.set(Value::text("current"), items.items[next]);
    return items.items[at];
  };
  self->members.set(Value::text("next"), std::make_shared<const Callable>(Callable{
                                             "next", [go](Interpreter&, Arguments&) { return go(false); }}));
  self->members.set(Value::text("reset"), std::make_shared<const Callable>(
                                              Callable{"reset", [go](Interpreter&, Arguments&) -> Value {
                                                         go(true);
                                                         return None{};
                                                       }}));
  return self;
}

/// joiner(sep): "" the first time it is called, then sep.
Value joiner(Interpreter& in, Arguments& arguments) {
  const auto bound = bind("joiner", arguments, {"sep"});
  const Value separator = bound[0] == nullptr ? Value::text(", ") : *bound[0];
  Namespace* state = in.make_namespace();
  return std::make_shared<const Callable>(Callable{"joiner",
                                                   [state, separator](Interpreter&, Arguments&) {
                                                     const bool first = state->members.items.empty();
                                                     state->members.set(Value::text("used"), true);
                                                     return first ? Value::text("") : separator;
                                                   },
                                                   depth_of(separator)});
}

}  // namespace

std::vector<std::pair<std::string, Value>> global_functions() {
  return {{"range", function("range", range)},
          {"dict", function("dict", make_dict)},
          {"namespace", function("namespace", make_namespace)},
          {"cycler", function("cycler", cycler)},
          {"joiner", function("joiner", joiner)},
          {"raise_exception", function("raise_exception", raise_exception)},
          {"strftime_now", function("strftime_now", strftime_now)}};
}

std::vector<const Value*> bind(std::string_view function, const Arguments& arguments,
                               std::initializer_list<std::string_view> names) {
  std::vector<const Value*> bound(names.size(), nullptr);
  if (arguments.values.size() > names.size())
    fail(ML_E_FORMAT, "{} takes {} arguments at most, not {}", function, names.size(),
         arguments.values.size());
  for (std::size_t i = 0; i < arguments.values.size(); ++i) bound[i] = &arguments.values[i];
  for (const auto& [name, value] : arguments.named) {
    const auto at = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    if (at == names.size() || bound[at] != nullptr)
      fail(ML_E_FORMAT, "{}: the argument {} is unknown or given twice", function, name);
    bound[at] = &value;
  }
  return bound;
}

std::int64_t integer_argument(std::string_view function, const Value* value, std::int64_t otherwise) {
  std::int64_t number = otherwise;
  if (value != nullptr && !value->integer(number))
    fail(ML_E_FORMAT, "{} needs an integer, not {}", function, type_name(*value));
  return number;
}

bool flag_argument(const Value* value, bool otherwise) {
  return value == nullptr ? otherwise : truth(*value);
}

const Text& text_argument(std::string_view function, const Value* value) {
  if (value == nullptr || value->as_text() == nullptr)
    fail(ML_E_FORMAT, "{} needs a str, not {}", function, value == nullptr ? "nothing" : type_name(*value));
  return *value->as_text();
}

}  // namespace krafla::jinja
