// JSON from anywhere: the library's copies, dumps and destructors go down recursively, so how deep it nests is limited.
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
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

/// Where a text that parse_json() discarded goes wrong: ": line 3, column 5", or that it nests too deep.
inline std::string json_fault(std::string_view text) {
  if (nests_too_deep(text)) return ": it nests deeper than " + std::to_string(kMostNested);
  try {
    (void)nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& e) {
    const std::string_view before = text.substr(0, e.byte > 0 ? e.byte - 1 : 0);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const std::size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
    return ": line " + std::to_string(line) + ", column " + std::to_string(before.size() - start + 1);
  }
  return {};
}

/// The value a text is; discarded (is_discarded()) where it is no JSON or nests too deep.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text) {
  return nests_too_deep(text) ? Json(nlohmann::detail::value_t::discarded) : Json::parse(text, nullptr, false);
}

}  // namespace krafla
