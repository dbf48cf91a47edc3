// A template's text to tokens, with Jinja's rules for white space: trim_blocks and lstrip_blocks are on, one
// line end at the template's end is dropped, every line end is \n.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace krafla::jinja {

struct Token {
  enum class Kind {
    kData,
    kVariableBegin,
    kVariableEnd,
    kBlockBegin,
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd
  };
  Kind kind;
  std::string text;  // a string's value, not its spelling; a number without its underscores
  int line;
};

/// ML_E_FORMAT with the line for what is no token or is not closed.
std::vector<Token> tokenize(std::string_view source);

}  // namespace krafla::jinja
