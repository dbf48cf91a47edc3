// JSON from anywhere: the library's copies, dumps and destructors go down recursively, so how deep it nests
// is limited.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace krafla {

constexpr int kMostNested = 200;

/// Whether lists and objects nest beyond kMostNested levels. Any text.
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

/// The value a text is; discarded (is_discarded()) where it is no JSON or nests too deep.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text) {
  return nests_too_deep(text) ? Json(nlohmann::detail::value_t::discarded)
                              : Json::parse(text, nullptr, false);
}

}  // namespace krafla
