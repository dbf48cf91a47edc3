// Reads numbers from the small text files of Linux below /proc and /sys.
#pragma once

#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace krafla {

/// The number at the beginning of a file; nothing if the file does not exist or begins with something else,
/// such as "max".
template <class Number>
std::optional<Number> read_number(const std::string& path) {
  std::ifstream in(path);
  Number value{};
  return in >> value ? std::optional(value) : std::nullopt;
}

/// The number after `word`, in a file of lines "word number ...".
inline std::optional<std::uint64_t> read_number_after(const std::string& path, std::string_view word) {
  std::ifstream file(path);
  std::string first;
  for (std::uint64_t number = 0; file >> first;
       file.ignore(std::numeric_limits<std::streamsize>::max(), '\n'))
    if (first == word && file >> number) return number;
  return std::nullopt;
}

}  // namespace krafla
