// Values of the template language: Python's, as far as templates can see them. All but namespaces and loops
// are immutable and shared; namespaces and loops belong to the interpreter, so no cycle of values outlives
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/text.h"

namespace krafla::jinja {

class Interpreter;
struct List;
struct Dict;
struct Namespace;
struct Loop;
struct Callable;

struct Undefined {
  std::shared_ptr<const std::string> what;  // what was looked for, for the message; may be null
};
struct None {};

class Value {
 public:
  using Data = std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const Text>,
                            std::shared_ptr<const List>, std::shared_ptr<const Dict>, Namespace*, Loop*,
                            std::shared_ptr<const Callable>>;

  Value() : data_(Undefined{}) {}
  template <class T>
    requires(!std::is_same_v<std::decay_t<T>, Value> && std::is_constructible_v<Data, T>)
  Value(T&& value) : data_(std::forward<T>(value)) {}  // NOLINT: a value is what it holds
  Value(Text text) : data_(std::make_shared<const Text>(std::move(text))) {}
  Value(List list);
  Value(Dict dict);
  static Value undefined(std::string what) {
    return Undefined{std::make_shared<const std::string>(std::move(what))};
  }
  static Value text(std::string_view text) { return Text(std::string(text)); }

  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_none() const { return std::holds_alternative<None>(data_); }
  const Text* as_text() const { return pointer<Text>(); }
  const List* as_list() const { return pointer<List>(); }
  const Dict* as_dict() const { return pointer<Dict>(); }
  const Callable* as_callable() const { return pointer<Callable>(); }
  const bool* as_bool() const { return std::get_if<bool>(&data_); }
  const std::int64_t* as_int() const { return std::get_if<std::int64_t>(&data_); }
  const double* as_float() const { return std::get_if<double>(&data_); }
  Namespace* as_namespace() const { return held<Namespace>(); }
  Loop* as_loop() const { return held<Loop>(); }
  const Undefined& undefined_data() const { return std::get<Undefined>(data_); }
  /// A boolean or an integer as an integer.
  bool integer(std::int64_t& value) const;
  /// A boolean, an integer or a float as a float.
  bool number(double& value) const;

 private:
  template <class T>
  const T* pointer() const {
    const auto* held = std::get_if<std::shared_ptr<const T>>(&data_);
    return held == nullptr ? nullptr : held->get();
  }
  template <class T>
  T* held() const {
    T* const* held = std::get_if<T*>(&data_);
    return held == nullptr ? nullptr : *held;
  }
  Data data_;
};

/// What holds other values is no deeper and, written out, no larger than this: everything recursive relies on
/// it.
constexpr int kMaxDepth = 200;
constexpr std::size_t kMaxWeight = 4'000'000;

/// Any Python iterable.
struct List {
  enum class Form { kList, kTuple, kRange, kGenerator, kView };
  std::vector<Value> items;
  Form form = Form::kList;
  int depth = 0;                               // set by Value
  std::size_t weight = 0;                      // set by Value
  mutable bool used = false;                   // of a generator: it gives its items once
  std::int64_t start = 0, stop = 0, step = 1;  // of a range, for its repr
  bool sized() const { return form != Form::kGenerator; }
  bool indexed() const { return form != Form::kGenerator && form != Form::kView; }
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;  // in the order of their first insertion
  int depth = 0;                               // set by Value
  std::size_t weight = 0;                      // set by Value
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);

 private:
  template <class Same>
  std::size_t place(std::size_t hash, Same same) const;
  std::unordered_multimap<std::size_t, std::size_t>
      places_;  // of items by their key's hash, once there are many
};

struct Namespace {
  Dict members;
};

/// The variable `loop`.
struct Loop {
  const std::vector<Value>* items = nullptr;
  std::size_t index0 = 0;
  int depth0 = 0;
  Value changed;  // the arguments of the last loop.changed()
  Value call;     // loop(...) of a recursive loop
};

struct Arguments {
  std::vector<Value> values;
  std::vector<std::pair<std::string, Value>> named;
};

struct Callable {
  std::string name;
  std::function<Value(Interpreter&, Arguments&)> call;
  int depth = 0;
  std::vector<std::pair<std::string, Value>> members = {};  // of a macro: name, arguments ...
};

/// Depth of what a value holds, for the makers of lists, dicts and callables.
int depth_of(const Value& value);

/// Work it takes to go through all of a value: its items, and texts by 16 bytes and by their marks.
std::size_t weight_of(const Value& value);

bool truth(const Value& value);
bool equal(const Value& a, const Value& b);
/// < 0, 0, > 0. ML_E_FORMAT where Python has no order for the two.
int compare(const Value& a, const Value& b);
const char* type_name(const Value& value);  // Python's
/// Python's str(): what {{ }} prints. Strings within lists and dicts are written as repr() does.
Text to_text(const Value& value);
Text repr(const Value& value);
std::string float_repr(double value);

/// JSON's values as Python's; strings are marked literal.
Value from_json(const nlohmann::ordered_json& json, bool literal);
struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false;
  bool indented = false;
  std::string indent, item_separator = ", ", key_separator = ": ";
};
/// Python's json.dumps. ML_E_FORMAT for values JSON cannot say.
Text to_json(const Value& value, const JsonStyle& style);

}  // namespace krafla::jinja
