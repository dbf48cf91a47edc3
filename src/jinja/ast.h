// The syntax tree of a template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jinja/value.h"

namespace krafla::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  enum class Kind {
    kConstant,     // value
    kName,         // name
    kList,         // parts
    kTuple,        // parts
    kDict,         // parts: key, value, key, value ...
    kAttribute,    // parts[0] . name
    kItem,         // parts[0] [ parts[1] ]
    kSlice,        // parts: the sliced, start, stop, step; the last three may be null
    kCall,         // parts[0] ( parts[1..], named )
    kFilter,       // parts[0] | name ( parts[1..], named ); parts[0] is null in a filter block
    kTest,         // parts[0] is name ( parts[1..], named )
    kNot,          // parts[0]
    kNegative,     // parts[0]
    kPositive,     // parts[0]
    kArithmetic,   // parts[0] name parts[1]; name: + - * / // % **
    kCompare,      // parts[0] operators[0] parts[1] operators[1] parts[2] ...
    kAnd,          // parts[0], parts[1]
    kOr,           // parts[0], parts[1]
    kConditional,  // parts[0] if parts[1] else parts[2]; the last may be null
    kConcat,       // parts, joined by ~
  };
  Kind kind;
  int line;
  int depth = 1;
  std::string name = {};
  Value value = {};
  std::vector<ExprPtr> parts = {};
  std::vector<std::pair<std::string, ExprPtr>> named = {};
  std::vector<std::string> operators = {};
};

/// Names that a macro's body speaks of. Without them the macro takes no arguments but its parameters.
struct MacroNames {
  bool varargs = false, kwargs = false, caller = false;
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct Stmt {
  enum class Kind {
    kText,         // value
    kOutput,       // exprs
    kIf,           // exprs: conditions; bodies: one for each, and perhaps an else
    kFor,          // target in exprs[0] if exprs[1] (may be null); bodies: body, else; recursive
    kSet,          // target = exprs[0]
    kSetBlock,     // target = body through the filters exprs[0] (may be null)
    kMacro,        // name, parameters, exprs: their defaults (null: none); bodies[0]; takes
    kCallBlock,    // the call exprs[0], with a caller of parameters, defaults exprs[1..]; bodies[0]
    kFilterBlock,  // bodies[0] through exprs[0]
    kWith,         // parameters = exprs; bodies[0]
    kScope,        // bodies[0]: block, generation
    kBreak,
    kContinue,
  };
  Kind kind;
  int line;
  std::string name = {};
  Value value = {};
  ExprPtr target = {};
  std::vector<ExprPtr> exprs = {};
  std::vector<std::string> parameters = {};
  std::vector<Body> bodies = {};
  bool recursive = false;
  MacroNames takes = {};
};

}  // namespace krafla::jinja
