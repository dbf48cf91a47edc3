// Reads token ids from JSON. An invalid id is an error; it is never converted to another id.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"

namespace krafla {

/// The token id in a JSON value, an integer from 0 to 2^31 - 1. Otherwise ML_E_FORMAT with `what` and the
/// value found.
inline std::int32_t json_id(const nlohmann::json& value, std::string_view what) {
  const bool fits = value.is_number_integer() && value >= 0 && value <= INT32_MAX;
  if (!fits)
    fail(ML_E_FORMAT, "{}: {} is not a token id; it must be an integer, 0 or more", what,
         value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 60));
  return value.get<std::int32_t>();
}

/// The token ids in a JSON list. ML_E_FORMAT as above.
inline std::vector<std::int32_t> json_ids(const nlohmann::json& list, std::string_view what) {
  if (!list.is_array()) fail(ML_E_FORMAT, "{}: must be a list of token ids", what);
  std::vector<std::int32_t> ids;
  ids.reserve(list.size());
  for (const nlohmann::json& value : list) ids.push_back(json_id(value, what));
  return ids;
}

}  // namespace krafla
