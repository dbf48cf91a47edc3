// The automaton of Aho and Corasick (Communications of the ACM 18, 1975): searches a text for many patterns
// at once, in time linear in the text, whatever the patterns are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace krafla {

/// Each state stands for a prefix of some pattern: the longest one that the bytes read so far end with.
/// Immutable and thread-safe.
class TextAutomaton {
 public:
  struct Pattern {
    std::string_view bytes;
    std::int32_t id;  // at least 0
  };
  static constexpr std::uint32_t kStart = 0;  // the state of the empty prefix

  TextAutomaton() : TextAutomaton(std::vector<Pattern>()) {}
  /// Keeps nothing of the bytes. Of equal patterns the first counts; empty ones never match.
  explicit TextAutomaton(std::vector<Pattern> patterns);

  /// The state after reading `byte` in `state`.
  std::uint32_t next(std::uint32_t state, std::uint8_t byte) const;

  struct Match {
    std::uint32_t length = 0;  // 0: no pattern
    std::int32_t id = -1;
  };
  /// The longest pattern that the bytes read so far end with.
  Match match(std::uint32_t state) const { return nodes_[state].match; }
  /// A pattern that begins with the state's prefix, or -1 in the state kStart.
  std::int32_t pattern_with_prefix(std::uint32_t state) const { return nodes_[state].pattern; }

 private:
  /// A node of the trie of all patterns. The children of a node are consecutive, in ascending order of their
  /// bytes.
  struct Node {
    std::uint32_t first_child = 0;
    std::uint32_t fallback = kStart;  // the node of the longest proper suffix that is also a node
    Match match;
    std::int32_t pattern = -1;
    std::uint16_t children = 0;
    std::uint8_t byte = 0;
  };
  std::uint32_t child(std::uint32_t node, std::uint8_t byte) const;

  std::vector<Node> nodes_;
};

}  // namespace krafla
