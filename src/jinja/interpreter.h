// Runs a template's syntax tree. Bounded: steps, bytes, depth of calls; what would go beyond ends with an
// Error.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <deque>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/ast.h"
#include "jinja/value.h"

namespace krafla::jinja {

/// One scope of names.
struct Frame {
  Frame* parent = nullptr;
  std::vector<std::pair<std::string, Value>> names = {};
};

class Interpreter {
 public:
  /// `now` is what strftime_now() tells; unset: the local time.
  explicit Interpreter(std::optional<std::tm> now = std::nullopt) : now_(now) {}
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// Renders once. ML_E_FORMAT, with the line, for what the template does wrong; ML_E_ARG for its
  /// raise_exception.
  Text render(const Body& body, std::vector<std::pair<std::string, Value>> context);

  // For filters, tests, methods and functions.

  /// Counts work; every value of n bytes or items that is made or looked through counts. As work is what 16
  /// bytes of memory take, or some 100 nanoseconds, it bounds both.
  void spend(std::uint64_t n);
  void spend_comparison(const Value& a, const Value& b) { spend(std::min(weight_of(a), weight_of(b))); }
  /// Of looking for `part` in `whole`: in the worst case it is compared at each byte.
  void spend_search(std::size_t whole, std::size_t part) { spend(1 + whole / 16 * (1 + part / 64)); }
  /// Of making n values that are texts, lists or dicts.
  void spend_values(std::size_t n) { spend(8 * n); }
  Value attribute(const Value& value, const std::string& name);
  Value item(const Value& value, const Value& key);
  Value call(const Value& function, Arguments& arguments);
  Value filter(const std::string& name, const Value& input, Arguments& arguments);
  bool test(const std::string& name, const Value& input, Arguments& arguments);
  Value arithmetic(const std::string& op, const Value& a, const Value& b);
  bool contains(const Value& container, const Value& value);
  /// What a for loop goes through. Takes a generator's items.
  std::vector<Value> iterate(const Value& value);
  /// A string's own text or the value's, as filters see it. Counts it.
  Text text(const Value& value);
  Namespace* make_namespace();
  Frame* make_frame(Frame* parent);
  std::tm now() const;

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class Nested;
  class Scope;

  Flow execute(const Body& body, Frame& frame, Text& out);
  Flow execute(const Stmt& stmt, Frame& frame, Text& out);
  Flow run_if(const Stmt& stmt, Frame& frame, Text& out);
  void run_for(const Stmt& stmt, Frame& frame, const Value& over, int depth, Text& out);
  std::vector<Value> kept_items(const Stmt& stmt, Frame& frame, const Value& over);
  void run_call_block(const Stmt& stmt, Frame& frame, Text& out);
  void run_with(const Stmt& stmt, Frame& frame, Text& out);
  Text captured(const Body& body, Frame& frame);
  Value make_macro(const Stmt& stmt, Frame& frame, std::size_t first_default);
  Value call_macro(const Stmt& stmt, Frame& closure, std::size_t first_default, Arguments& arguments);
  void assign(const Expr& target, Value value, Frame& frame);
  void print(const Value& value, Text& out);

  Value evaluate(const Expr& expr, Frame& frame);
  Value lookup(const std::string& name, const Frame& frame);
  Value make_list(const Expr& expr, Frame& frame);
  Value make_dict(const Expr& expr, Frame& frame);
  Value slice(const Expr& expr, Frame& frame);
  Value compare_chain(const Expr& expr, Frame& frame);
  Value call_expr(const Expr& expr, Frame& frame);
  Value filter_expr(const Expr& expr, const Value* input, Frame& frame);
  Value test_expr(const Expr& expr, Frame& frame);
  Value negated(const Value& value, bool negative);
  Value conditional(const Expr& expr, Frame& frame);
  Value concatenated(const Expr& expr, Frame& frame);
  Arguments arguments_of(const Expr& expr, Frame& frame);

  std::optional<std::tm> now_;
  std::uint64_t work_ = 0;
  int depth_ = 0;
  int line_ = 1;
  std::size_t captured_ = 0;  // scopes that macros and recursive loops hold on to
  // Frames that something holds on to, namespaces and loops live as long as the interpreter; nothing is torn
  // down recursively.
  std::deque<Frame> frames_;
  std::deque<Namespace> namespaces_;
  std::deque<Loop> loops_;
  std::deque<std::vector<Value>> loop_items_;
};

/// Arguments by position or by name, in the order of `names`; null where not given. ML_E_FORMAT for others.
std::vector<const Value*> bind(std::string_view function, const Arguments& arguments,
                               std::initializer_list<std::string_view> names);
/// ML_E_FORMAT where the argument is there and of another type.
std::int64_t integer_argument(std::string_view function, const Value* value, std::int64_t otherwise);
bool flag_argument(const Value* value, bool otherwise);
const Text& text_argument(std::string_view function, const Value* value);

// ---- the language's library, by topic

using Filter = Value (*)(Interpreter&, const Value&, Arguments&);
using Test = bool (*)(Interpreter&, const Value&, Arguments&);
/// Null for a name that is none.
Filter find_text_filter(std::string_view name);
Filter find_list_filter(std::string_view name);
Test find_test(std::string_view name);
/// A bound method of a string or a dict; undefined where Python has none (or one that changes the value).
Value method(const Value& self, const std::string& name);
/// The functions range, dict, namespace ...
std::vector<std::pair<std::string, Value>> global_functions();
/// "%s of %d" % values.
Text format_percent(Interpreter& interpreter, const Text& format, const Value& values);
/// "{} of {name}".format(...).
Text format_braces(Interpreter& interpreter, const Text& format, const Arguments& arguments);

}  // namespace krafla::jinja
