#include "tokenizer/text_automaton.h"

#include <algorithm>
#include <deque>

namespace krafla {

TextAutomaton::TextAutomaton(std::vector<Pattern> patterns) {
  // Bytes are compared as unsigned, as std::string_view does.
  std::erase_if(patterns, [](const Pattern& pattern) { return pattern.bytes.empty(); });
  std::stable_sort(patterns.begin(), patterns.end(),
                   [](const Pattern& a, const Pattern& b) { return a.bytes < b.bytes; });

  // Breadth first: the fallback of a node is less deep than the node, so it is complete when it is needed.
  struct Pending {
    std::size_t first, last, depth;  // the patterns [first, last) begin with the node's `depth` bytes
  };
  std::deque<Pending> pending = {{0, patterns.size(), 0}};
  nodes_.emplace_back();
  for (std::uint32_t i = 0; !pending.empty(); ++i) {
    auto [first, last, depth] = pending.front();
    pending.pop_front();
    const std::uint32_t fallback = nodes_[i].fallback;
    nodes_[i].match = nodes_[fallback].match;
    if (depth > 0) nodes_[i].pattern = patterns[first].id;
    if (depth > 0 && patterns[first].bytes.size() == depth)
      nodes_[i].match = {static_cast<std::uint32_t>(depth), patterns[first].id};
    while (first < last && patterns[first].bytes.size() == depth) ++first;
    nodes_[i].first_child = static_cast<std::uint32_t>(nodes_.size());
    while (first < last) {
      const auto byte_of = [&](std::size_t p) { return static_cast<std::uint8_t>(patterns[p].bytes[depth]); };
      Node node;
      node.byte = byte_of(first);
      node.fallback = i == kStart ? kStart : next(fallback, node.byte);
      const std::size_t begin = first;
      while (first < last && byte_of(first) == node.byte) ++first;
      pending.push_back({begin, first, depth + 1});
      nodes_.push_back(node);
      ++nodes_[i].children;
    }
  }
}

/// The child of `node` by `byte`, or kStart, which is never a child.
std::uint32_t TextAutomaton::child(std::uint32_t node, std::uint8_t byte) const {
  const auto first = nodes_.begin() + nodes_[node].first_child, last = first + nodes_[node].children;
  const auto found =
      std::lower_bound(first, last, byte, [](const Node& n, std::uint8_t b) { return n.byte < b; });
  return found != last && found->byte == byte ? static_cast<std::uint32_t>(found - nodes_.begin()) : kStart;
}

std::uint32_t TextAutomaton::next(std::uint32_t state, std::uint8_t byte) const {
  for (;; state = nodes_[state].fallback)
    if (const std::uint32_t found = child(state, byte); found != kStart || state == kStart) return found;
}

}  // namespace krafla
