// Whether texts overlap: Aho and Corasick's automaton (Communications of the ACM 18, 1975), linear in the
// texts' bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace krafla {

/// Texts to look for. They must outlive it.
class Overlaps {
 public:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  /// Empty texts overlap nothing.
  explicit Overlaps(const std::vector<std::string_view>& texts);
  /// The index of a text that stands within `text`, or of one that begins where `text` ends, with one common
  /// byte at least; kNone if there is none.
  std::size_t find(std::string_view text) const;

 private:
  struct Node {
    std::uint32_t fallback = 0;  // of the longest proper suffix that is a node
    std::size_t text = kNone;    // one that begins with the node's bytes
    std::size_t whole = kNone;   // one that the node's bytes end with
  };
  /// The node of `node`'s bytes and `byte`, or of the longest suffix of them.
  std::uint32_t step(std::uint32_t node, char byte) const;
  static std::uint64_t edge(std::uint32_t node, char byte) {
    return std::uint64_t{node} << 8 | static_cast<std::uint8_t>(byte);
  }

  std::vector<Node> nodes_;  // 0: no bytes
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;
};

}  // namespace krafla
