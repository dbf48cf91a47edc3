// Finds overlaps between texts, in time linear in their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/text_automaton.h"

namespace krafla {

/// A set of texts that other texts may overlap.
class Overlaps {
 public:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  /// Keeps nothing of the texts' bytes. Empty texts overlap nothing.
  explicit Overlaps(const std::vector<std::string_view>& texts) : automaton_(patterns(texts)) {}

  /// The index of a text of the set that lies within `text`, or that begins within `text` and continues
  /// beyond its end; kNone if there is none.
  std::size_t find(std::string_view text) const {
    std::uint32_t state = TextAutomaton::kStart;
    for (const char byte : text) {
      state = automaton_.next(state, static_cast<std::uint8_t>(byte));
      if (const TextAutomaton::Match match = automaton_.match(state); match.length > 0)
        return static_cast<std::size_t>(match.id);
    }
    const std::int32_t continued = automaton_.pattern_with_prefix(state);
    return continued < 0 ? kNone : static_cast<std::size_t>(continued);
  }

 private:
  static std::vector<TextAutomaton::Pattern> patterns(const std::vector<std::string_view>& texts) {
    std::vector<TextAutomaton::Pattern> result;
    result.reserve(texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) result.push_back({texts[i], static_cast<std::int32_t>(i)});
    return result;
  }

  TextAutomaton automaton_;
};

}  // namespace krafla
