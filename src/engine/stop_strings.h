// Stop strings: texts that end an answer and are not part of it, wherever they lie across tokens.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace krafla {

class StopStrings {
 public:
  /// Empty strings are ignored.
  explicit StopStrings(std::vector<std::string> strings);

  /// The text that is certain now: what may be the beginning of a stop string waits. After a stop string
  /// nothing comes.
  std::string feed(std::string_view text);
  /// What still waits: the answer is over.
  std::string finish() { return std::exchange(held_, {}); }
  /// Whether a stop string came.
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> strings_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace krafla
