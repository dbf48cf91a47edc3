// Tokens to the syntax tree, by Jinja's grammar.
#pragma once

#include <string_view>

#include "jinja/ast.h"

namespace krafla::jinja {

/// ML_E_FORMAT, with the line, for what Jinja's grammar or the nesting limit refuses; ML_E_UNSUPPORTED for
/// templates of several files.
Body parse(std::string_view source);

}  // namespace krafla::jinja
