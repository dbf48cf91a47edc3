#include "jinja/expression_parser.h"

#include <charconv>

#include "jinja/interpreter.h"

namespace krafla::jinja {

std::string ExpressionParser::shown() const {
  switch (now().kind) {
    case Kind::kEnd: return "the template's end";
    case Kind::kVariableEnd: return "}}";
    case Kind::kBlockEnd: return "%}";
    case Kind::kString: return "a string";
    default: return fmt::format("'{}'", now().text);
  }
}

ExprPtr ExpressionParser::tuple(bool conditional) {
  const int line = now().line;
  const auto one = [&] { return conditional ? expression() : either(); };
  ExprPtr first = one();
  if (!is_op(",")) return first;
  ExprPtr all = of(Expr::Kind::kTuple, line, "", std::move(first));
  while (skip_op(",")) {
    if (is(Kind::kBlockEnd) || is(Kind::kVariableEnd) || is_op(")") || is_name("recursive")) break;
    add(*all, one());
  }
  return all;
}

ExprPtr ExpressionParser::expression() {
  const Nested nested(*this);
  const int line = now().line;
  const std::size_t known = unknown_.size();
  ExprPtr left = either();
  while (skip_name("if")) {
    ExprPtr condition = either();
    ExprPtr otherwise = skip_name("else") ? expression() : nullptr;
    left =
        of(Expr::Kind::kConditional, line, "", std::move(left), std::move(condition), std::move(otherwise));
    unknown_.resize(known);
  }
  return left;
}

ExprPtr ExpressionParser::either() {
  ExprPtr left = both();
  while (is_name("or")) {
    const int line = tokens_[at_++].line;
    left = of(Expr::Kind::kOr, line, "", std::move(left), both());
  }
  return left;
}

ExprPtr ExpressionParser::both() {
  ExprPtr left = negation();
  while (is_name("and")) {
    const int line = tokens_[at_++].line;
    left = of(Expr::Kind::kAnd, line, "", std::move(left), negation());
  }
  return left;
}

ExprPtr ExpressionParser::negation() {
  if (!is_name("not")) return comparison();
  const Nested nested(*this);
  const int line = tokens_[at_++].line;
  return of(Expr::Kind::kNot, line, "", negation());
}

ExprPtr ExpressionParser::comparison() {
  ExprPtr left = sum();
  std::vector<std::string> operators;
  ExprPtr all;
  while (true) {
    const int line = now().line;
    std::string op;
    if (is(Kind::kOperator) &&
        (is_op("==") || is_op("!=") || is_op("<") || is_op("<=") || is_op(">") || is_op(">=")))
      op = now().text;
    else if (is_name("in"))
      op = "in";
    else if (is_name("not") && tokens_[at_ + 1].kind == Kind::kName && tokens_[at_ + 1].text == "in")
      op = "not in";
    if (op.empty()) break;
    at_ += op == "not in" ? 2 : 1;
    if (!all) all = of(Expr::Kind::kCompare, line, "", std::move(left));
    all->operators.push_back(op);
    add(*all, sum());
  }
  return all ? std::move(all) : std::move(left);
}

ExprPtr ExpressionParser::sum() {
  ExprPtr left = concatenation();
  while (is_op("+") || is_op("-")) {
    const Token& op = tokens_[at_++];
    left = of(Expr::Kind::kArithmetic, op.line, op.text, std::move(left), concatenation());
  }
  return left;
}

ExprPtr ExpressionParser::concatenation() {
  const int line = now().line;
  ExprPtr left = product();
  if (!is_op("~")) return left;
  ExprPtr all = of(Expr::Kind::kConcat, line, "", std::move(left));
  while (skip_op("~")) add(*all, product());
  return all;
}

ExprPtr ExpressionParser::product() {
  ExprPtr left = power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    const Token& op = tokens_[at_++];
    left = of(Expr::Kind::kArithmetic, op.line, op.text, std::move(left), power());
  }
  return left;
}

ExprPtr ExpressionParser::power() {
  ExprPtr left = unary(true);
  while (is_op("**")) {
    const Token& op = tokens_[at_++];
    left = of(Expr::Kind::kArithmetic, op.line, op.text, std::move(left), unary(true));
  }
  return left;
}

ExprPtr ExpressionParser::unary(bool with_filter) {
  const Nested nested(*this);
  const int line = now().line;
  ExprPtr expr;
  if (skip_op("-"))
    expr = of(Expr::Kind::kNegative, line, "", unary(false));
  else if (skip_op("+"))
    expr = of(Expr::Kind::kPositive, line, "", unary(false));
  else
    expr = primary();
  expr = postfix(std::move(expr));
  return with_filter ? filters(std::move(expr), false) : std::move(expr);
}

ExprPtr ExpressionParser::primary() {
  const int line = now().line;
  if (is(Kind::kName)) return name_or_constant();
  if (is(Kind::kString)) {
    std::string text;
    for (; is(Kind::kString); ++at_) text += now().text;
    return constant(line, Value::text(text));
  }
  if (is(Kind::kInteger) || is(Kind::kFloat)) return number();
  if (skip_op("(")) {
    if (skip_op(")")) return make(Expr::Kind::kTuple, line);
    ExprPtr inner = tuple(true);
    expect_op(")");
    return inner;
  }
  if (skip_op("[")) {
    ExprPtr list = make(Expr::Kind::kList, line);
    while (!skip_op("]")) {
      add(*list, expression());
      if (!is_op("]")) expect_op(",");
    }
    return list;
  }
  if (skip_op("{")) {
    ExprPtr dict = make(Expr::Kind::kDict, line);
    while (!skip_op("}")) {
      add(*dict, expression());
      expect_op(":");
      add(*dict, expression());
      if (!is_op("}")) expect_op(",");
    }
    return dict;
  }
  wrong("an expression expected, not " + shown());
}

ExprPtr ExpressionParser::constant(int line, Value value) const {
  ExprPtr expr = make(Expr::Kind::kConstant, line);
  expr->value = std::move(value);
  return expr;
}

ExprPtr ExpressionParser::name_or_constant() {
  const Token& token = tokens_[at_++];
  if (token.text == "true" || token.text == "True") return constant(token.line, true);
  if (token.text == "false" || token.text == "False") return constant(token.line, false);
  if (token.text == "none" || token.text == "None") return constant(token.line, None{});
  spoken_.varargs |= token.text == "varargs";
  spoken_.kwargs |= token.text == "kwargs";
  spoken_.caller |= token.text == "caller";
  return make(Expr::Kind::kName, token.line, token.text);
}

ExprPtr ExpressionParser::number() {
  const std::string& text = now().text;
  const char* end = text.data() + text.size();
  std::int64_t whole = 0;
  double real = 0;
  const bool integer = is(Kind::kInteger);
  const auto read =
      integer ? std::from_chars(text.data(), end, whole) : std::from_chars(text.data(), end, real);
  if (read.ec != std::errc() || read.ptr != end) wrong(fmt::format("the number {} is too large", text));
  const int line = tokens_[at_++].line;
  return integer ? constant(line, whole) : constant(line, real);
}

ExprPtr ExpressionParser::postfix(ExprPtr expr) {
  while (true) {
    const int line = now().line;
    if (skip_op(".")) {
      if (is(Kind::kInteger))
        expr = of(Expr::Kind::kItem, line, "", std::move(expr), number());
      else
        expr = of(Expr::Kind::kAttribute, line, expect_name(), std::move(expr));
    } else if (skip_op("[")) {
      expr = subscript(std::move(expr), line);
    } else if (is_op("(")) {
      expr = of(Expr::Kind::kCall, line, "", std::move(expr));
      arguments(*expr);
    } else {
      return expr;
    }
  }
}

ExprPtr ExpressionParser::subscript(ExprPtr expr, int line) {
  ExprPtr first = is_op(":") ? nullptr : tuple(true);
  if (first && skip_op("]")) return of(Expr::Kind::kItem, line, "", std::move(expr), std::move(first));
  expect_op(":");
  ExprPtr stop = is_op(":") || is_op("]") ? nullptr : expression();
  ExprPtr step = skip_op(":") && !is_op("]") ? expression() : nullptr;
  expect_op("]");
  return of(Expr::Kind::kSlice, line, "", std::move(expr), std::move(first), std::move(stop),
            std::move(step));
}

void ExpressionParser::arguments(Expr& call) {
  expect_op("(");
  while (!skip_op(")")) {
    if (is_op("*") || is_op("**"))
      fail(ML_E_UNSUPPORTED, "chat template, line {}: {}arguments are not supported", now().line, now().text);
    if (is(Kind::kName) && tokens_[at_ + 1].kind == Kind::kOperator && tokens_[at_ + 1].text == "=") {
      std::string name = expect_name();
      ++at_;
      ExprPtr value = expression();
      call.depth = std::max(call.depth, value->depth + 1);
      call.named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!call.named.empty()) wrong("an argument without a name follows one with a name");
      add(call, expression());
    }
    if (!is_op(")")) expect_op(",");
  }
}

ExprPtr ExpressionParser::filters(ExprPtr inner, bool bare) {
  while (true) {
    const int line = now().line;
    if (bare || skip_op("|")) {
      bare = false;
      std::string name = expect_name();
      while (skip_op(".")) name.append(1, '.').append(expect_name());
      if (find_text_filter(name) == nullptr && find_list_filter(name) == nullptr)
        unknown_.push_back(fmt::format("chat template, line {}: there is no filter '{}'", line, name));
      inner = of(Expr::Kind::kFilter, line, std::move(name), std::move(inner));
      if (is_op("(")) arguments(*inner);
    } else if (inner && skip_name("is")) {
      inner = test(std::move(inner), line);
    } else if (inner && is_op("(")) {
      inner = of(Expr::Kind::kCall, line, "", std::move(inner));
      arguments(*inner);
    } else {
      return inner;
    }
  }
}

ExprPtr ExpressionParser::test(ExprPtr inner, int line) {
  const bool negated = skip_name("not");
  ExprPtr expr = of(Expr::Kind::kTest, line, expect_name(), std::move(inner));
  if (find_test(expr->name) == nullptr)
    unknown_.push_back(fmt::format("chat template, line {}: there is no test '{}'", line, expr->name));
  const bool argument = is(Kind::kName) || is(Kind::kString) || is(Kind::kInteger) || is(Kind::kFloat) ||
                        is_op("[") || is_op("{");
  if (is_op("(")) {
    arguments(*expr);
  } else if (argument && !is_name({"else", "or", "and"})) {
    if (is_name("is")) wrong("tests cannot be chained");
    add(*expr, postfix(primary()));
  }
  return negated ? of(Expr::Kind::kNot, line, "", std::move(expr)) : std::move(expr);
}

void ExpressionParser::check_names(std::size_t known) const {
  if (unknown_.size() > known) fail(ML_E_FORMAT, "{}", unknown_[known]);
}

}  // namespace krafla::jinja
