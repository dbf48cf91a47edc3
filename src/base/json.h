// Parses untrusted JSON. The library's copies, dumps and destructors are recursive, so the depth of nesting
// is limited.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace krafla {

constexpr int kMostNested = 200;

/// Whether lists and objects nest more than kMostNested levels deep. `text` need not be valid JSON.
inline bool nests_too_deep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMostNested) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

/// The value of a JSON text; is_discarded() if it is invalid or nested too deeply.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text) {
  return nests_too_deep(text) ? Json(nlohmann::detail::value_t::discarded)
                              : Json::parse(text, nullptr, false);
}

}  // namespace krafla
