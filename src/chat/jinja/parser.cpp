#include "chat/jinja/parser.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>

#include "base/error.h"
#include "chat/jinja/lexer.h"

namespace krafla::jinja {
namespace {

using Kind = Token::Kind;

/// Of brackets, blocks and chains of operators. What runs the tree goes as deep.
constexpr int kMaxNesting = 200;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)) {}

  Body run() {
    Body body = statements({});
    return body;
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  // Counts how deep the parser calls itself.
  class Nested {
   public:
    explicit Nested(Parser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMaxNesting) parser_.too_deep();
    }
    ~Nested() { --parser_.nesting_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Parser& parser_;
  };

  [[noreturn]] void wrong(const std::string& what) const { fail(ML_E_FORMAT, "chat template, line {}: {}", now().line, what); }
  [[noreturn]] void too_deep() const { wrong(fmt::format("nested more than {} deep", kMaxNesting)); }
  std::string shown() const {
    switch (now().kind) {
      case Kind::kEnd: return "the template's end";
      case Kind::kVariableEnd: return "}}";
      case Kind::kBlockEnd: return "%}";
      case Kind::kString: return "a string";
      default: return fmt::format("'{}'", now().text);
    }
  }

  const Token& now() const { return tokens_[at_]; }
  bool is(Kind kind) const { return now().kind == kind; }
  bool is_op(std::string_view text) const { return is(Kind::kOperator) && now().text == text; }
  bool is_name(std::string_view text) const { return is(Kind::kName) && now().text == text; }
  bool is_name(Names names) const { return is(Kind::kName) && std::find(names.begin(), names.end(), now().text) != names.end(); }
  bool skip_op(std::string_view text) { return is_op(text) && (++at_, true); }
  bool skip_name(std::string_view text) { return is_name(text) && (++at_, true); }
  void expect_op(std::string_view text) {
    if (!skip_op(text)) wrong(fmt::format("'{}' expected, not {}", text, shown()));
  }
  std::string expect_name() {
    if (!is(Kind::kName)) wrong("a name expected, not " + shown());
    return tokens_[at_++].text;
  }
  void expect_block_end() {
    if (!is(Kind::kBlockEnd)) wrong("%} expected, not " + shown());
    ++at_;
  }

  ExprPtr make(Expr::Kind kind, int line, std::string name = {}) const {
    return std::make_unique<Expr>(Expr{.kind = kind, .line = line, .name = std::move(name)});
  }
  void add(Expr& expr, ExprPtr part) const {
    if (part) expr.depth = std::max(expr.depth, part->depth + 1);
    if (expr.depth > kMaxNesting) too_deep();
    expr.parts.push_back(std::move(part));
  }
  template <class... Parts>
  ExprPtr of(Expr::Kind kind, int line, std::string name, Parts... parts) const {
    ExprPtr expr = make(kind, line, std::move(name));
    (add(*expr, std::move(parts)), ...);
    return expr;
  }
  static std::unique_ptr<Stmt> statement(Stmt::Kind kind, int line) { return std::make_unique<Stmt>(Stmt{.kind = kind, .line = line}); }

  // ---- statements

  /// Up to a block that begins with one of `ends`, whose name stays to be read; without `ends`, to the end.
  Body statements(Names ends) {
    const Nested nested(*this);
    Body body;
    while (!is(Kind::kEnd)) {
      if (is(Kind::kData)) {
        auto stmt = statement(Stmt::Kind::kText, now().line);
        stmt->value = Value::text(now().text);
        body.push_back(std::move(stmt));
        ++at_;
      } else if (is(Kind::kVariableBegin)) {
        ++at_;
        auto stmt = statement(Stmt::Kind::kOutput, now().line);
        stmt->exprs.push_back(tuple(true));
        if (!is(Kind::kVariableEnd)) wrong("}} expected, not " + shown());
        ++at_;
        body.push_back(std::move(stmt));
      } else {
        ++at_;
        if (is_name(ends)) return body;
        body.push_back(block());
      }
    }
    if (ends.size() > 0) wrong(fmt::format("{} is missing", *(ends.end() - 1)));
    return body;
  }
  /// The body of a block, from its %} to and over `end`.
  Body body_until(std::string_view end) {
    expect_block_end();
    Body body = statements({end});
    ++at_;
    expect_block_end();
    return body;
  }

  std::unique_ptr<Stmt> block() {
    const int line = now().line;
    const std::string name = expect_name();
    if (name == "if") return if_block(line);
    if (name == "for") return for_block(line);
    if (name == "set") return set_block(line);
    if (name == "macro") return macro(line);
    if (name == "call") return call_block(line);
    if (name == "filter") {
      auto stmt = statement(Stmt::Kind::kFilterBlock, line);
      stmt->exprs.push_back(filters(nullptr, true));
      stmt->bodies.push_back(body_until("endfilter"));
      return stmt;
    }
    if (name == "with") return with_block(line);
    if (name == "generation") {
      auto stmt = statement(Stmt::Kind::kScope, line);
      stmt->bodies.push_back(body_until("endgeneration"));
      return stmt;
    }
    if (name == "print") {
      auto stmt = statement(Stmt::Kind::kOutput, line);
      do stmt->exprs.push_back(expression());
      while (skip_op(","));
      expect_block_end();
      return stmt;
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0) wrong(fmt::format("{} outside of a loop", name));
      expect_block_end();
      return statement(name == "break" ? Stmt::Kind::kBreak : Stmt::Kind::kContinue, line);
    }
    if (name == "include" || name == "import" || name == "from" || name == "extends" || name == "block")
      fail(ML_E_UNSUPPORTED, "chat template, line {}: {} needs other templates; a chat template stands alone", line, name);
    fail(ML_E_FORMAT, "chat template, line {}: there is no block {}", line, name);
  }

  std::unique_ptr<Stmt> if_block(int line) {
    auto stmt = statement(Stmt::Kind::kIf, line);
    stmt->exprs.push_back(tuple(false));
    while (true) {
      expect_block_end();
      stmt->bodies.push_back(statements({"elif", "else", "endif"}));
      if (skip_name("elif")) {
        stmt->exprs.push_back(tuple(false));
      } else if (skip_name("else")) {
        stmt->bodies.push_back(body_until("endif"));
        return stmt;
      } else {
        ++at_;
        expect_block_end();
        return stmt;
      }
    }
  }

  std::unique_ptr<Stmt> for_block(int line) {
    auto stmt = statement(Stmt::Kind::kFor, line);
    stmt->target = target();
    if (!skip_name("in")) wrong("'in' expected, not " + shown());
    stmt->exprs.push_back(tuple(false));
    stmt->exprs.push_back(skip_name("if") ? expression() : nullptr);
    stmt->recursive = skip_name("recursive");
    expect_block_end();
    ++loops_;
    stmt->bodies.push_back(statements({"else", "endfor"}));
    --loops_;
    if (skip_name("else")) {
      stmt->bodies.push_back(body_until("endfor"));
    } else {
      ++at_;
      expect_block_end();
    }
    return stmt;
  }

  std::unique_ptr<Stmt> set_block(int line) {
    auto stmt = statement(Stmt::Kind::kSet, line);
    stmt->target = target();
    if (skip_op("=")) {
      stmt->exprs.push_back(tuple(true));
      expect_block_end();
      return stmt;
    }
    stmt->kind = Stmt::Kind::kSetBlock;
    stmt->exprs.push_back(is_op("|") ? filters(nullptr, false) : nullptr);
    stmt->bodies.push_back(body_until("endset"));
    return stmt;
  }

  void parameters(Stmt& stmt) {
    expect_op("(");
    while (!skip_op(")")) {
      stmt.parameters.push_back(expect_name());
      stmt.exprs.push_back(skip_op("=") ? expression() : nullptr);
      if (!is_op(")")) expect_op(",");
    }
  }

  std::unique_ptr<Stmt> macro(int line) {
    auto stmt = statement(Stmt::Kind::kMacro, line);
    stmt->name = expect_name();
    parameters(*stmt);
    const int loops = std::exchange(loops_, 0);
    stmt->bodies.push_back(body_until("endmacro"));
    loops_ = loops;
    return stmt;
  }

  std::unique_ptr<Stmt> call_block(int line) {
    auto stmt = statement(Stmt::Kind::kCallBlock, line);
    stmt->exprs.push_back(nullptr);
    if (is_op("(")) parameters(*stmt);
    stmt->exprs[0] = expression();
    if (stmt->exprs[0]->kind != Expr::Kind::kCall) wrong("a call block needs a call");
    const int loops = std::exchange(loops_, 0);
    stmt->bodies.push_back(body_until("endcall"));
    loops_ = loops;
    return stmt;
  }

  std::unique_ptr<Stmt> with_block(int line) {
    auto stmt = statement(Stmt::Kind::kWith, line);
    while (!is(Kind::kBlockEnd)) {
      stmt->parameters.push_back(expect_name());
      expect_op("=");
      stmt->exprs.push_back(expression());
      if (!skip_op(",")) break;
    }
    stmt->bodies.push_back(body_until("endwith"));
    return stmt;
  }

  /// What a for or a set assigns to: a name, a namespace's member, or a tuple of them.
  ExprPtr target() {
    const Nested nested(*this);
    const int line = now().line;
    const auto single = [&]() -> ExprPtr {
      if (skip_op("(")) {
        ExprPtr inner = target();
        expect_op(")");
        return inner;
      }
      ExprPtr name = make(Expr::Kind::kName, line, expect_name());
      if (!skip_op(".")) return name;
      return of(Expr::Kind::kAttribute, line, expect_name(), std::move(name));
    };
    ExprPtr first = single();
    if (!is_op(",")) return first;
    ExprPtr all = of(Expr::Kind::kTuple, line, "", std::move(first));
    while (skip_op(",") && (is(Kind::kName) || is_op("("))) add(*all, single());
    return all;
  }

  // ---- expressions

  /// One expression, or several with commas: a tuple.
  ExprPtr tuple(bool conditional) {
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

  ExprPtr expression() {
    const Nested nested(*this);
    const int line = now().line;
    ExprPtr left = either();
    while (skip_name("if")) {
      ExprPtr condition = either();
      ExprPtr otherwise = skip_name("else") ? expression() : nullptr;
      left = of(Expr::Kind::kConditional, line, "", std::move(left), std::move(condition), std::move(otherwise));
    }
    return left;
  }
  ExprPtr either() {
    ExprPtr left = both();
    while (is_name("or")) {
      const int line = tokens_[at_++].line;
      left = of(Expr::Kind::kOr, line, "", std::move(left), both());
    }
    return left;
  }
  ExprPtr both() {
    ExprPtr left = negation();
    while (is_name("and")) {
      const int line = tokens_[at_++].line;
      left = of(Expr::Kind::kAnd, line, "", std::move(left), negation());
    }
    return left;
  }
  ExprPtr negation() {
    if (!is_name("not")) return comparison();
    const Nested nested(*this);
    const int line = tokens_[at_++].line;
    return of(Expr::Kind::kNot, line, "", negation());
  }

  ExprPtr comparison() {
    ExprPtr left = sum();
    std::vector<std::string> operators;
    ExprPtr all;
    while (true) {
      const int line = now().line;
      std::string op;
      if (is(Kind::kOperator) && (is_op("==") || is_op("!=") || is_op("<") || is_op("<=") || is_op(">") || is_op(">=")))
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

  ExprPtr sum() {
    ExprPtr left = concatenation();
    while (is_op("+") || is_op("-")) {
      const Token& op = tokens_[at_++];
      left = of(Expr::Kind::kArithmetic, op.line, op.text, std::move(left), concatenation());
    }
    return left;
  }
  ExprPtr concatenation() {
    const int line = now().line;
    ExprPtr left = product();
    if (!is_op("~")) return left;
    ExprPtr all = of(Expr::Kind::kConcat, line, "", std::move(left));
    while (skip_op("~")) add(*all, product());
    return all;
  }
  ExprPtr product() {
    ExprPtr left = power();
    while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
      const Token& op = tokens_[at_++];
      left = of(Expr::Kind::kArithmetic, op.line, op.text, std::move(left), power());
    }
    return left;
  }
  ExprPtr power() {
    ExprPtr left = unary(true);
    while (is_op("**")) {
      const Token& op = tokens_[at_++];
      left = of(Expr::Kind::kArithmetic, op.line, op.text, std::move(left), unary(true));
    }
    return left;
  }
  ExprPtr unary(bool with_filter) {
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

  ExprPtr primary() {
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
  ExprPtr constant(int line, Value value) const {
    ExprPtr expr = make(Expr::Kind::kConstant, line);
    expr->value = std::move(value);
    return expr;
  }
  ExprPtr name_or_constant() {
    const Token& token = tokens_[at_++];
    if (token.text == "true" || token.text == "True") return constant(token.line, true);
    if (token.text == "false" || token.text == "False") return constant(token.line, false);
    if (token.text == "none" || token.text == "None") return constant(token.line, None{});
    return make(Expr::Kind::kName, token.line, token.text);
  }
  ExprPtr number() {
    const std::string& text = now().text;
    const char* end = text.data() + text.size();
    std::int64_t whole = 0;
    double real = 0;
    const bool integer = is(Kind::kInteger);
    const auto read = integer ? std::from_chars(text.data(), end, whole) : std::from_chars(text.data(), end, real);
    if (read.ec != std::errc() || read.ptr != end) wrong(fmt::format("the number {} is too large", text));
    const int line = tokens_[at_++].line;
    return integer ? constant(line, whole) : constant(line, real);
  }

  ExprPtr postfix(ExprPtr expr) {
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
  ExprPtr subscript(ExprPtr expr, int line) {
    ExprPtr first = is_op(":") ? nullptr : tuple(true);
    if (first && skip_op("]")) return of(Expr::Kind::kItem, line, "", std::move(expr), std::move(first));
    expect_op(":");
    ExprPtr stop = is_op(":") || is_op("]") ? nullptr : expression();
    ExprPtr step = skip_op(":") && !is_op("]") ? expression() : nullptr;
    expect_op("]");
    return of(Expr::Kind::kSlice, line, "", std::move(expr), std::move(first), std::move(stop), std::move(step));
  }
  void arguments(Expr& call) {
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

  /// Filters, tests and calls after an expression. `inner` null with `bare`: the filters of a filter block.
  ExprPtr filters(ExprPtr inner, bool bare) {
    while (true) {
      const int line = now().line;
      if (bare || skip_op("|")) {
        bare = false;
        std::string name = expect_name();
        while (skip_op(".")) name.append(1, '.').append(expect_name());
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
  ExprPtr test(ExprPtr inner, int line) {
    const bool negated = skip_name("not");
    ExprPtr expr = of(Expr::Kind::kTest, line, expect_name(), std::move(inner));
    const bool argument = is(Kind::kName) || is(Kind::kString) || is(Kind::kInteger) || is(Kind::kFloat) || is_op("[") || is_op("{");
    if (is_op("(")) {
      arguments(*expr);
    } else if (argument && !is_name({"else", "or", "and"})) {
      if (is_name("is")) wrong("tests cannot be chained");
      add(*expr, postfix(primary()));
    }
    return negated ? of(Expr::Kind::kNot, line, "", std::move(expr)) : std::move(expr);
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0, loops_ = 0;
};

}  // namespace

Body parse(std::string_view source) { return Parser(source).run(); }

}  // namespace krafla::jinja
