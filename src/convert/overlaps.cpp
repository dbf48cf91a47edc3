#include "convert/overlaps.h"

namespace krafla {

Overlaps::Overlaps(const std::vector<std::string_view>& texts) : nodes_(1) {
  // A node's parent is one level up, so the levels' nodes in turn find their parents' fallbacks made.
  struct Made {
    std::uint32_t parent, node;
    char byte;
  };
  std::vector<std::vector<Made>> levels;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::uint32_t node = 0;
    for (std::size_t depth = 0; depth < texts[i].size(); ++depth) {
      const char byte = texts[i][depth];
      const std::uint32_t parent = node;
      const auto [it, made] =
          edges_.try_emplace(edge(parent, byte), static_cast<std::uint32_t>(nodes_.size()));
      node = it->second;
      if (!made) continue;
      nodes_.push_back({.text = i});
      if (levels.size() == depth) levels.emplace_back();
      levels[depth].push_back({parent, node, byte});
    }
    if (node != 0) nodes_[node].whole = i;
  }
  for (const std::vector<Made>& level : levels)
    for (const Made& m : level) {
      Node& node = nodes_[m.node];
      if (m.parent != 0) node.fallback = step(nodes_[m.parent].fallback, m.byte);
      if (node.whole == kNone) node.whole = nodes_[node.fallback].whole;
    }
}

std::uint32_t Overlaps::step(std::uint32_t node, char byte) const {
  for (;; node = nodes_[node].fallback) {
    if (const auto it = edges_.find(edge(node, byte)); it != edges_.end()) return it->second;
    if (node == 0) return 0;
  }
}

std::size_t Overlaps::find(std::string_view text) const {
  std::uint32_t node = 0;
  for (const char byte : text) {
    node = step(node, byte);
    if (nodes_[node].whole != kNone) return nodes_[node].whole;
  }
  return nodes_[node].text;
}

}  // namespace krafla
