// Token ids out of JSON, where a number that is no id must not quietly become another one.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"

namespace krafla {

/// The id a JSON value is: an integer from 0 to 2^31 - 1. ML_E_FORMAT naming `what` and the value found
/// otherwise.
inline std::int32_t json_id(const nlohmann::json& value, std::string_view what) {
  const bool fits = value.is_number_integer() && value >= 0 && value <= INT32_MAX;
  if (!fits)
    fail(ML_E_FORMAT, "{}: {} is no token id; an integer from 0 on is needed", what,
         value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 60));
  return value.get<std::int32_t>();
}

/// A JSON list of ids.
inline std::vector<std::int32_t> json_ids(const nlohmann::json& list, std::string_view what) {
  if (!list.is_array()) fail(ML_E_FORMAT, "{}: must be a list of token ids", what);
  std::vector<std::int32_t> ids;
  ids.reserve(list.size());
  for (const nlohmann::json& value : list) ids.push_back(json_id(value, what));
  return ids;
}

}  // namespace krafla
