#include "engine/stop_strings.h"

#include <algorithm>

namespace krafla {

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  std::erase(strings_, std::string());
}

std::string StopStrings::feed(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  std::size_t first = 0, end = std::string::npos;  // of the stop string that is complete first
  std::size_t certain = held_.size();              // bytes before a possible beginning of one
  for (const std::string& stop : strings_) {
    const std::size_t found = held_.find(stop);
    if (found != std::string::npos && found + stop.size() <= end) {
      first = found + stop.size() < end ? found : std::min(first, found);
      end = found + stop.size();
    }
    std::size_t size = std::min(stop.size() - 1, held_.size());
    while (size > 0 && !std::string_view(held_).ends_with(std::string_view(stop).substr(0, size))) --size;
    certain = std::min(certain, held_.size() - size);
  }
  stopped_ = end != std::string::npos;
  std::string out = held_.substr(0, stopped_ ? first : certain);
  held_ = stopped_ ? std::string() : held_.substr(certain);
  return out;
}

}  // namespace krafla
