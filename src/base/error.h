// The only exception type. The library never prints, exits or aborts: it throws Error, whose message names
// the file, the field or tensor, the value found and the value allowed.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "krafla/krafla.h"

namespace krafla {

class Error : public std::runtime_error {
 public:
  Error(ml_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  ml_status status() const { return status_; }

 private:
  ml_status status_;
};

/// Throws Error with a formatted message.
template <class... Args>
[[noreturn]] void fail(ml_status status, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(status, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace krafla
