// What a user can do about an error. The library states facts and knows no options; the program adds the
// hint.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "base/error.h"

namespace krafla::cli {

/// Returns call(). An Error of one of these statuses is thrown on with "; " and `hint` behind its message.
template <class Call>
auto with_hint(std::initializer_list<ml_status> statuses, std::string_view hint, Call&& call) {
  try {
    return call();
  } catch (const Error& e) {
    if (std::find(statuses.begin(), statuses.end(), e.status()) == statuses.end()) throw;
    fail(e.status(), "{}; {}", e.what(), hint);
  }
}

}  // namespace krafla::cli
