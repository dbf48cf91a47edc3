// The added tokens, cut out of raw text before all else: leftmost first, of those that begin at one place the
// longest. Goal: time that grows with the text alone, whatever the tokens are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/mlt.h"

namespace krafla {

/// Bytes [first, second) of a text.
using TextRange = std::pair<std::size_t, std::size_t>;

/// Texts that are looked for all at once, from the end of a text to its beginning: Aho and Corasick's
/// automaton, of the texts read backwards. On such a walk it is known at each place which texts begin there,
/// so no way has to be gone twice.
class BackwardMatcher {
 public:
  struct Text {
    std::string_view bytes;  // at least one
    std::int32_t id;
  };
  BackwardMatcher() : BackwardMatcher(std::vector<Text>()) {}
  /// Keeps nothing of the bytes. The texts are distinct.
  explicit BackwardMatcher(std::vector<Text> texts);

  /// found(at, length, id), for each place of text[begin, end) at which a text that ends by `end` begins, the
  /// last place first: of its texts the longest.
  template <class Found>
  void walk(std::string_view text, std::size_t begin, std::size_t end, Found&& found) const {
    std::uint32_t at_node = 0;
    for (std::size_t at = end; at > begin;) {
      if (at_node == 0) at = last_end(text, begin, at);
      if (at == begin) return;
      at_node = next(at_node, static_cast<std::uint8_t>(text[--at]));
      if (const Node& node = nodes_[at_node]; node.length > 0) found(at, node.length, node.id);
    }
  }

 private:
  /// What has been read, backwards: the longest that some text ends with. The children of a node stand
  /// together, in the order of their bytes.
  struct Node {
    std::uint32_t first_child = 0;
    std::uint32_t shorter =
        0;                     // the node of the longest part of it, its last-read bytes, that is also a node
    std::uint32_t length = 0;  // of the longest text that it is or has as such a part; 0: none
    std::int32_t id = -1;      // of that text
    std::uint16_t children = 0;
    std::uint8_t byte = 0;
  };
  std::uint32_t child(std::uint32_t node, std::uint8_t byte) const;
  std::uint32_t next(std::uint32_t node, std::uint8_t byte) const;
  std::size_t last_end(std::string_view text, std::size_t begin, std::size_t end) const;

  std::vector<Node> nodes_;  // the first: nothing has been read
  std::vector<bool> ends_;   // whether a text ends with the byte
  int only_end_ = -1;        // the one byte that all texts end with: then memrchr searches
};

/// Immutable and thread-safe.
class AddedTokens {
 public:
  /// Keeps nothing of `mlt`'s bytes. `control` by id.
  AddedTokens(const Mlt& mlt, const std::vector<bool>& control);

  struct Match {
    std::uint32_t at, length;
    std::int32_t id;
  };
  /// What is cut out of `text` (of less than 4 GiB), in order. Control tokens only if `controls`, and not
  /// where they touch one of the ranges of `literal`, which are ascending and apart.
  std::vector<Match> find_all(std::string_view text, bool controls, std::span<const TextRange> literal) const;
  /// The added token with exactly these bytes, or -1.
  std::int32_t find(std::string_view bytes) const;

 private:
  struct Token {
    std::string bytes;
    std::int32_t id;
  };
  std::vector<Token> tokens_;  // sorted by bytes
  BackwardMatcher control_, others_;
};

}  // namespace krafla
