#include "jinja/parser.h"

#include <utility>

#include "base/error.h"
#include "jinja/expression_parser.h"

namespace krafla::jinja {
namespace {

class Parser : ExpressionParser {
 public:
  explicit Parser(std::string_view source) : ExpressionParser(source) {}

  Body run() {
    Body body = statements({});
    check_names(0);
    return body;
  }

 private:
  static std::unique_ptr<Stmt> statement(Stmt::Kind kind, int line) {
    return std::make_unique<Stmt>(Stmt{.kind = kind, .line = line});
  }

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
    const std::size_t known = unknown_.size();
    const bool conditional = is_name("if"), plain = is_name({"set", "print"});
    std::unique_ptr<Stmt> stmt = any_block();
    if (conditional) unknown_.resize(known);
    if (!conditional && !plain) check_names(known);
    return stmt;
  }

  std::unique_ptr<Stmt> any_block() {
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
      fail(ML_E_UNSUPPORTED, "chat template, line {}: {} needs other templates; a chat template stands alone",
           line, name);
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

  void macro_body(Stmt& stmt, std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    const MacroNames around = std::exchange(spoken_, {});
    stmt.bodies.push_back(body_until(end));
    stmt.takes = spoken_;
    spoken_ = {around.varargs || spoken_.varargs, around.kwargs || spoken_.kwargs,
               around.caller || spoken_.caller};
    loops_ = loops;
  }

  std::unique_ptr<Stmt> macro(int line) {
    auto stmt = statement(Stmt::Kind::kMacro, line);
    stmt->name = expect_name();
    parameters(*stmt);
    macro_body(*stmt, "endmacro");
    return stmt;
  }

  std::unique_ptr<Stmt> call_block(int line) {
    auto stmt = statement(Stmt::Kind::kCallBlock, line);
    stmt->exprs.push_back(nullptr);
    if (is_op("(")) parameters(*stmt);
    stmt->exprs[0] = expression();
    if (stmt->exprs[0]->kind != Expr::Kind::kCall) wrong("a call block needs a call");
    macro_body(*stmt, "endcall");
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

  int loops_ = 0;
};

}  // namespace

Body parse(std::string_view source) { return Parser(source).run(); }

}  // namespace krafla::jinja
