// Numbers out of the small text files by which Linux tells of itself: /proc, /sys.
#pragma once

#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace krafla {

/// The number that a file begins with; nothing if there is no such file, or it begins with something else
/// ("max").
template <class Number>
std::optional<Number> read_number(const std::string& path) {
  std::ifstream in(path);
  Number value{};
  return in >> value ? std::optional(value) : std::nullopt;
}

/// The number after a word, in a file of lines "word number ...".
inline std::optional<std::uint64_t> read_number_after(const std::string& path, std::string_view word) {
  std::ifstream file(path);
  std::string first;
  for (std::uint64_t number = 0; file >> first;
       file.ignore(std::numeric_limits<std::streamsize>::max(), '\n'))
    if (first == word && file >> number) return number;
  return std::nullopt;
}

}  // namespace krafla
