#include "jinja/interpreter.h"

#include <algorithm>
#include <memory>

#include "base/error.h"

namespace krafla::jinja {
namespace {

/// Of calls within calls, counted in steps of the syntax tree.
constexpr int kMaxCalls = 1000;
/// Work: a step of the tree, or 16 bytes or one item of a value.
constexpr std::size_t kMaxWork = 10'000'000, kStep = 16;
/// Of what stays until the end: a macro with its scope, a loop, a namespace.
constexpr std::size_t kKept = 32;
constexpr std::string_view kWhere = "chat template, ";

}  // namespace

class Interpreter::Nested {
 public:
  Nested(Interpreter& in, int line) : in_(in) {
    in_.line_ = line;
    if (++in_.depth_ > kMaxCalls) {
      --in_.depth_;
      fail(ML_E_FORMAT, "calls are nested too deep");
    }
    in_.spend(1);
  }
  ~Nested() { --in_.depth_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  Interpreter& in_;
};

/// A frame that goes with the scope, and all made within, unless a macro or a recursive loop made there holds
/// on to one of them.
class Interpreter::Scope {
 public:
  Scope(Interpreter& in, Frame* parent)
      : in_(in), made_(in.frames_.size()), captured_(in.captured_), frame_(*in.make_frame(parent)) {}
  ~Scope() {
    while (in_.captured_ == captured_ && in_.frames_.size() > made_) in_.frames_.pop_back();
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  Frame& frame() { return frame_; }

 private:
  Interpreter& in_;
  std::size_t made_, captured_;
  Frame& frame_;
};

Text Interpreter::render(const Body& body, std::vector<std::pair<std::string, Value>> context) {
  try {
    Frame* globals = make_frame(nullptr);
    globals->names = global_functions();
    Frame* given = make_frame(globals);
    given->names = std::move(context);
    Text out;
    execute(body, *make_frame(given), out);
    return out;
  } catch (const Error& e) {
    const std::string message = e.what();
    if (message.starts_with(kWhere)) throw;
    fail(e.status(), "{}line {}: {}", kWhere, line_, message);
  }
}

void Interpreter::spend(std::uint64_t n) {
  work_ += n;
  if (work_ > kMaxWork) fail(ML_E_FORMAT, "the template does too much work: more than {} steps", kMaxWork);
}

Text Interpreter::text(const Value& value) {
  Text text = to_text(value);
  spend(1 + text.bytes.size() / kStep + text.literal.size());
  return text;
}

Frame* Interpreter::make_frame(Frame* parent) {
  frames_.emplace_back();
  frames_.back().parent = parent;
  return &frames_.back();
}

Namespace* Interpreter::make_namespace() {
  spend(kKept);
  namespaces_.emplace_back();
  return &namespaces_.back();
}

std::tm Interpreter::now() const {
  if (now_) return *now_;
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  localtime_r(&seconds, &local);
  return local;
}

// ---- statements

Interpreter::Flow Interpreter::execute(const Body& body, Frame& frame, Text& out) {
  for (const auto& stmt : body) {
    const Flow flow = execute(*stmt, frame, out);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Stmt& stmt, Frame& frame, Text& out) {
  const Nested nested(*this, stmt.line);
  switch (stmt.kind) {
    case Stmt::Kind::kText: print(stmt.value, out); break;
    case Stmt::Kind::kOutput:
      for (const ExprPtr& expr : stmt.exprs) print(evaluate(*expr, frame), out);
      break;
    case Stmt::Kind::kIf: return run_if(stmt, frame, out);
    case Stmt::Kind::kFor: run_for(stmt, frame, evaluate(*stmt.exprs[0], frame), 0, out); break;
    case Stmt::Kind::kSet: assign(*stmt.target, evaluate(*stmt.exprs[0], frame), frame); break;
    case Stmt::Kind::kSetBlock: {
      Value value = captured(stmt.bodies[0], frame);
      if (stmt.exprs[0]) value = filter_expr(*stmt.exprs[0], &value, frame);
      assign(*stmt.target, std::move(value), frame);
      break;
    }
    case Stmt::Kind::kMacro: {
      const Expr name{.kind = Expr::Kind::kName, .line = stmt.line, .name = stmt.name};
      assign(name, make_macro(stmt, frame, 0), frame);
      break;
    }
    case Stmt::Kind::kCallBlock: run_call_block(stmt, frame, out); break;
    case Stmt::Kind::kFilterBlock: {
      const Value value = captured(stmt.bodies[0], frame);
      print(filter_expr(*stmt.exprs[0], &value, frame), out);
      break;
    }
    case Stmt::Kind::kWith: run_with(stmt, frame, out); break;
    case Stmt::Kind::kScope: return execute(stmt.bodies[0], Scope(*this, &frame).frame(), out);
    case Stmt::Kind::kBreak: return Flow::kBreak;
    case Stmt::Kind::kContinue: return Flow::kContinue;
  }
  return Flow::kNext;
}

void Interpreter::print(const Value& value, Text& out) {
  const Text* known = value.as_text();
  const Text made = known == nullptr ? to_text(value) : Text();
  if (known == nullptr) known = &made;
  spend(known->bytes.size() / kStep + known->literal.size());
  out.append(*known);
  check_text(out.bytes.size());
}

Text Interpreter::captured(const Body& body, Frame& frame) {
  Text text;
  execute(body, Scope(*this, &frame).frame(), text);
  return text;
}

Interpreter::Flow Interpreter::run_if(const Stmt& stmt, Frame& frame, Text& out) {
  for (std::size_t i = 0; i < stmt.exprs.size(); ++i)
    if (truth(evaluate(*stmt.exprs[i], frame))) return execute(stmt.bodies[i], frame, out);
  return stmt.bodies.size() > stmt.exprs.size() ? execute(stmt.bodies.back(), frame, out) : Flow::kNext;
}

std::vector<Value> Interpreter::kept_items(const Stmt& stmt, Frame& frame, const Value& over) {
  std::vector<Value> items = iterate(over);
  if (!stmt.exprs[1]) return items;
  std::vector<Value> kept;
  Scope inner(*this, &frame);
  Frame& scope = inner.frame();
  for (Value& item : items) {
    scope.names.clear();
    assign(*stmt.target, item, scope);
    if (truth(evaluate(*stmt.exprs[1], scope))) kept.push_back(std::move(item));
  }
  return kept;
}

void Interpreter::run_for(const Stmt& stmt, Frame& frame, const Value& over, int depth, Text& out) {
  spend(kKept);
  loop_items_.push_back(kept_items(stmt, frame, over));
  std::vector<Value>& items = loop_items_.back();
  loops_.push_back({.items = &items, .index0 = 0, .depth0 = depth, .changed = {}, .call = {}});
  Loop& loop = loops_.back();
  captured_ += stmt.recursive ? 1 : 0;
  if (stmt.recursive)
    loop.call = std::make_shared<const Callable>(
        Callable{"loop", [&stmt, &frame, depth](Interpreter& in, Arguments& arguments) -> Value {
                   const auto bound = bind("loop", arguments, {"iterable"});
                   Text inner;
                   if (bound[0] != nullptr) in.run_for(stmt, frame, *bound[0], depth + 1, inner);
                   return inner;
                 }});
  if (items.empty() && stmt.bodies.size() > 1) execute(stmt.bodies[1], Scope(*this, &frame).frame(), out);
  for (; loop.index0 < items.size(); ++loop.index0) {
    spend(1);
    Scope inner(*this, &frame);
    Frame& scope = inner.frame();
    scope.names.emplace_back("loop", &loop);
    assign(*stmt.target, items[loop.index0], scope);
    if (execute(stmt.bodies[0], scope, out) == Flow::kBreak) break;
  }
  // A loop that a namespace still holds sees itself empty.
  loop.index0 = 0;
  std::vector<Value>().swap(items);
}

void Interpreter::run_with(const Stmt& stmt, Frame& frame, Text& out) {
  Scope inner(*this, &frame);
  Frame& scope = inner.frame();
  for (std::size_t i = 0; i < stmt.parameters.size(); ++i)
    scope.names.emplace_back(stmt.parameters[i], evaluate(*stmt.exprs[i], frame));
  execute(stmt.bodies[0], scope, out);
}

void Interpreter::run_call_block(const Stmt& stmt, Frame& frame, Text& out) {
  const Expr& expr = *stmt.exprs[0];
  const Value function = evaluate(*expr.parts[0], frame);
  Arguments arguments = arguments_of(expr, frame);
  arguments.named.emplace_back("caller", make_macro(stmt, frame, 1));
  print(call(function, arguments), out);
}

Value Interpreter::make_macro(const Stmt& stmt, Frame& frame, std::size_t first_default) {
  ++captured_;
  spend(kKept);
  Callable macro;
  macro.name = first_default == 0 ? stmt.name : "caller";
  macro.call = [&stmt, &frame, first_default](Interpreter& in, Arguments& arguments) {
    return in.call_macro(stmt, frame, first_default, arguments);
  };
  List names;
  for (const std::string& name : stmt.parameters) names.items.push_back(Value::text(name));
  names.form = List::Form::kTuple;
  macro.members = {{"name", Value::text(macro.name)}, {"arguments", std::move(names)}};
  return std::make_shared<const Callable>(std::move(macro));
}

Value Interpreter::call_macro(const Stmt& stmt, Frame& closure, std::size_t first_default,
                              Arguments& arguments) {
  Scope inner(*this, &closure);
  Frame& scope = inner.frame();
  const std::size_t n = stmt.parameters.size();
  spend((1 + n) * (1 + arguments.named.size()));
  if (arguments.values.size() > n && !stmt.takes.varargs)
    fail(ML_E_FORMAT, "macro '{}' takes {} arguments, not {}", stmt.name, n, arguments.values.size());
  List rest{.items = {}, .form = List::Form::kTuple};
  for (std::size_t i = n; i < arguments.values.size(); ++i) rest.items.push_back(arguments.values[i]);
  Dict named;
  for (auto& [name, value] : arguments.named) {
    const auto at = static_cast<std::size_t>(std::find(stmt.parameters.begin(), stmt.parameters.end(), name) -
                                             stmt.parameters.begin());
    if (at < std::min(n, arguments.values.size()))
      fail(ML_E_FORMAT, "macro '{}' gets two values for {}", stmt.name, name);
    if (at < n) continue;
    if (name == "caller" && stmt.takes.caller)
      scope.names.emplace_back("caller", value);
    else if (stmt.takes.kwargs)
      named.set(Value::text(name), value);
    else
      fail(ML_E_FORMAT, "macro '{}' takes no argument named '{}'", stmt.name, name);
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::string& name = stmt.parameters[i];
    const auto given = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& a) { return a.first == name; });
    const ExprPtr& otherwise = stmt.exprs[first_default + i];
    Value value = i < arguments.values.size()      ? arguments.values[i]
                  : given != arguments.named.end() ? given->second
                  : otherwise                      ? evaluate(*otherwise, scope)
                              : Value::undefined(fmt::format("the parameter '{}'", name));
    scope.names.emplace_back(name, std::move(value));
  }
  scope.names.emplace_back("varargs", std::move(rest));
  scope.names.emplace_back("kwargs", std::move(named));
  Text out;
  execute(stmt.bodies[0], scope, out);
  return out;
}

void Interpreter::assign(const Expr& target, Value value, Frame& frame) {
  if (target.kind == Expr::Kind::kTuple) {
    std::vector<Value> items = iterate(value);
    if (items.size() != target.parts.size())
      fail(ML_E_FORMAT, "{} names for {} values", target.parts.size(), items.size());
    for (std::size_t i = 0; i < items.size(); ++i) assign(*target.parts[i], std::move(items[i]), frame);
    return;
  }
  if (target.kind == Expr::Kind::kAttribute) {
    Namespace* space = lookup(target.parts[0]->name, frame).as_namespace();
    if (space == nullptr)
      fail(ML_E_FORMAT, "cannot assign to {}.{}: only namespaces have members to set", target.parts[0]->name,
           target.name);
    if (target.name.starts_with('_'))
      fail(ML_E_FORMAT, "cannot assign to {}: members of namespaces do not begin with _", target.name);
    space->members.set(Value::text(target.name), std::move(value));
    return;
  }
  spend(frame.names.size() / kStep);
  for (auto& [name, old] : frame.names)
    if (name == target.name) {
      old = std::move(value);
      return;
    }
  frame.names.emplace_back(target.name, std::move(value));
}

// ---- expressions

Value Interpreter::evaluate(const Expr& expr, Frame& frame) {
  const Nested nested(*this, expr.line);
  switch (expr.kind) {
    case Expr::Kind::kConstant: return expr.value;
    case Expr::Kind::kName: return lookup(expr.name, frame);
    case Expr::Kind::kList:
    case Expr::Kind::kTuple: return make_list(expr, frame);
    case Expr::Kind::kDict: return make_dict(expr, frame);
    case Expr::Kind::kAttribute: return attribute(evaluate(*expr.parts[0], frame), expr.name);
    case Expr::Kind::kItem: {
      const Value value = evaluate(*expr.parts[0], frame);
      return item(value, evaluate(*expr.parts[1], frame));
    }
    case Expr::Kind::kSlice: return slice(expr, frame);
    case Expr::Kind::kCall: return call_expr(expr, frame);
    case Expr::Kind::kFilter: return filter_expr(expr, nullptr, frame);
    case Expr::Kind::kTest: return test_expr(expr, frame);
    case Expr::Kind::kNot: return !truth(evaluate(*expr.parts[0], frame));
    case Expr::Kind::kNegative: return negated(evaluate(*expr.parts[0], frame), true);
    case Expr::Kind::kPositive: return negated(evaluate(*expr.parts[0], frame), false);
    case Expr::Kind::kArithmetic: {
      const Value left = evaluate(*expr.parts[0], frame), right = evaluate(*expr.parts[1], frame);
      line_ = expr.line;
      return arithmetic(expr.name, left, right);
    }
    case Expr::Kind::kCompare: return compare_chain(expr, frame);
    case Expr::Kind::kAnd: {
      Value left = evaluate(*expr.parts[0], frame);
      return truth(left) ? evaluate(*expr.parts[1], frame) : left;
    }
    case Expr::Kind::kOr: {
      Value left = evaluate(*expr.parts[0], frame);
      return truth(left) ? left : evaluate(*expr.parts[1], frame);
    }
    case Expr::Kind::kConditional: return conditional(expr, frame);
    case Expr::Kind::kConcat: return concatenated(expr, frame);
  }
  return {};
}

Value Interpreter::lookup(const std::string& name, const Frame& frame) {
  for (const Frame* scope = &frame; scope != nullptr; scope = scope->parent) {
    spend(scope->names.size() / kStep);
    for (const auto& [known, value] : scope->names)
      if (known == name) return value;
  }
  return Value::undefined(fmt::format("'{}'", name));
}

Value Interpreter::make_list(const Expr& expr, Frame& frame) {
  List list;
  if (expr.kind == Expr::Kind::kTuple) list.form = List::Form::kTuple;
  for (const ExprPtr& part : expr.parts) list.items.push_back(evaluate(*part, frame));
  return list;
}

Value Interpreter::make_dict(const Expr& expr, Frame& frame) {
  Dict dict;
  for (std::size_t i = 0; i + 1 < expr.parts.size(); i += 2) {
    Value key = evaluate(*expr.parts[i], frame);
    if (key.as_dict() != nullptr || (key.as_list() != nullptr && key.as_list()->form == List::Form::kList))
      fail(ML_E_FORMAT, "a {} cannot be the key of a dict", type_name(key));
    spend(weight_of(key));
    dict.set(std::move(key), evaluate(*expr.parts[i + 1], frame));
  }
  return dict;
}

Value Interpreter::conditional(const Expr& expr, Frame& frame) {
  if (truth(evaluate(*expr.parts[1], frame))) return evaluate(*expr.parts[0], frame);
  return expr.parts[2] ? evaluate(*expr.parts[2], frame) : Value::undefined("the inline if without else");
}

Value Interpreter::concatenated(const Expr& expr, Frame& frame) {
  Text all;
  for (const ExprPtr& part : expr.parts) {
    all.append(text(evaluate(*part, frame)));
    check_text(all.bytes.size());
  }
  return all;
}

Arguments Interpreter::arguments_of(const Expr& expr, Frame& frame) {
  Arguments arguments;
  for (std::size_t i = 1; i < expr.parts.size(); ++i)
    arguments.values.push_back(evaluate(*expr.parts[i], frame));
  for (const auto& [name, value] : expr.named) arguments.named.emplace_back(name, evaluate(*value, frame));
  line_ = expr.line;
  return arguments;
}

Value Interpreter::call_expr(const Expr& expr, Frame& frame) {
  const Value function = evaluate(*expr.parts[0], frame);
  Arguments arguments = arguments_of(expr, frame);
  return call(function, arguments);
}

Value Interpreter::call(const Value& function, Arguments& arguments) {
  if (function.is_undefined()) attribute(function, "()");
  const Loop* loop = function.as_loop();
  const Callable* callable = loop != nullptr ? loop->call.as_callable() : function.as_callable();
  if (callable == nullptr) fail(ML_E_FORMAT, "a value of type {} cannot be called", type_name(function));
  return callable->call(*this, arguments);
}

/// A filter block gives the innermost filter its input.
Value Interpreter::filter_expr(const Expr& expr, const Value* input, Frame& frame) {
  Value value;
  if (!expr.parts[0])
    value = *input;
  else if (input != nullptr)
    value = filter_expr(*expr.parts[0], input, frame);
  else
    value = evaluate(*expr.parts[0], frame);
  Arguments arguments = arguments_of(expr, frame);
  return filter(expr.name, value, arguments);
}

Value Interpreter::filter(const std::string& name, const Value& input, Arguments& arguments) {
  Filter found = find_text_filter(name);
  if (found == nullptr) found = find_list_filter(name);
  if (found == nullptr) fail(ML_E_FORMAT, "there is no filter '{}'", name);
  spend_values(1);
  if (input.as_text() != nullptr) spend(weight_of(input));
  return found(*this, input, arguments);
}

Value Interpreter::test_expr(const Expr& expr, Frame& frame) {
  const Value value = evaluate(*expr.parts[0], frame);
  Arguments arguments = arguments_of(expr, frame);
  return test(expr.name, value, arguments);
}

bool Interpreter::test(const std::string& name, const Value& input, Arguments& arguments) {
  const Test found = find_test(name);
  if (found == nullptr) fail(ML_E_FORMAT, "there is no test '{}'", name);
  spend(1);
  return found(*this, input, arguments);
}

Value Interpreter::compare_chain(const Expr& expr, Frame& frame) {
  Value left = evaluate(*expr.parts[0], frame);
  for (std::size_t i = 0; i < expr.operators.size(); ++i) {
    Value right = evaluate(*expr.parts[i + 1], frame);
    line_ = expr.line;
    const std::string& op = expr.operators[i];
    bool holds = false;
    spend_comparison(left, right);
    if (op == "==" || op == "!=")
      holds = equal(left, right) == (op == "==");
    else if (op == "in" || op == "not in")
      holds = contains(right, left) == (op == "in");
    else if (left.is_undefined() || right.is_undefined())
      attribute(left.is_undefined() ? left : right, op);
    else if (const int order = compare(left, right); op[0] == '<')
      holds = order < 0 || (op == "<=" && order == 0);
    else
      holds = order > 0 || (op == ">=" && order == 0);
    if (!holds) return false;
    left = std::move(right);
  }
  return true;
}

}  // namespace krafla::jinja
