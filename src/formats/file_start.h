// What all formats of this project begin with: a magic of four letters, and the version.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/bytes.h"

namespace krafla {

/// Bytes of magic and version: a header's other fields begin there.
inline constexpr std::size_t kFileStartBytes = 8;

/// Checks that the file has `magic`, version 1 and room for its header of `header_bytes`. ML_E_FORMAT naming
/// `name` and the value found, and the format of the file where that is another known one.
void check_file_start(Bytes file, std::string_view magic, std::size_t header_bytes, std::string_view name);

}  // namespace krafla
