// A part of a text, by its bytes.
#pragma once

#include <cstddef>
#include <utility>

namespace krafla {

/// Bytes [first, second) of a text.
using TextRange = std::pair<std::size_t, std::size_t>;

}  // namespace krafla
