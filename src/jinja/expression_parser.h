// The part of the parser that reads expressions: a cursor over the tokens, and Jinja's grammar from the
// weakest operator to the strongest.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "jinja/ast.h"
#include "jinja/lexer.h"

namespace krafla::jinja {

/// Of brackets, blocks and chains of operators. What runs the tree goes as deep.
constexpr int kMaxNesting = 200;

class ExpressionParser {
 protected:
  using Kind = Token::Kind;
  using Names = std::initializer_list<std::string_view>;

  // Counts how deep the parser calls itself.
  class Nested {
   public:
    explicit Nested(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.nesting_ > kMaxNesting) parser_.too_deep();
    }
    ~Nested() { --parser_.nesting_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    ExpressionParser& parser_;
  };

  [[noreturn]] void wrong(const std::string& what) const {
    fail(ML_E_FORMAT, "chat template, line {}: {}", now().line, what);
  }
  [[noreturn]] void too_deep() const { wrong(fmt::format("nested more than {} deep", kMaxNesting)); }
  std::string shown() const;  // the token, for a message

  const Token& now() const { return tokens_[at_]; }
  bool is(Kind kind) const { return now().kind == kind; }
  bool is_op(std::string_view text) const { return is(Kind::kOperator) && now().text == text; }
  bool is_name(std::string_view text) const { return is(Kind::kName) && now().text == text; }
  bool is_name(Names names) const {
    return is(Kind::kName) && std::find(names.begin(), names.end(), now().text) != names.end();
  }
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
  static std::unique_ptr<Stmt> statement(Stmt::Kind kind, int line) {
    return std::make_unique<Stmt>(Stmt{.kind = kind, .line = line});
  }

  /// One expression, or several with commas: a tuple.
  ExprPtr tuple(bool conditional);
  ExprPtr expression();
  ExprPtr either();
  ExprPtr both();
  ExprPtr negation();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concatenation();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter);
  ExprPtr primary();
  ExprPtr constant(int line, Value value) const;
  ExprPtr name_or_constant();
  ExprPtr number();
  ExprPtr postfix(ExprPtr expr);
  ExprPtr subscript(ExprPtr expr, int line);
  void arguments(Expr& call);
  /// Filters, tests and calls after an expression. `inner` null with `bare`: the filters of a filter block.
  ExprPtr filters(ExprPtr inner, bool bare);
  ExprPtr test(ExprPtr inner, int line);

  /// ML_E_FORMAT for the first filter or test read since there were `known` of them in unknown_ that does not
  /// exist. Jinja says so before it renders, but for those in an if, which may ask first.
  void check_names(std::size_t known) const;

  explicit ExpressionParser(std::string_view source) : tokens_(tokenize(source)) {}

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int nesting_ = 0;
  std::vector<std::string> unknown_;  // messages
  MacroNames spoken_;                 // since the macro's body began
};

}  // namespace krafla::jinja
