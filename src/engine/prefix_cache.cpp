#include "engine/prefix_cache.h"

#include <algorithm>

namespace krafla {

PrefixCache::Place PrefixCache::walk(std::span<const std::int32_t> ids) {
  Place at{&root_, 0, 0};
  while (at.depth < ids.size()) {
    if (at.within == at.node->label.size()) {
      const auto child = at.node->children.find(ids[at.depth]);
      if (child == at.node->children.end()) break;
      at.node = child->second.get();
      at.within = 0;
    }
    const std::vector<std::int32_t>& label = at.node->label;
    while (at.within < label.size() && at.depth < ids.size() && label[at.within] == ids[at.depth]) {
      ++at.within;
      ++at.depth;
    }
    if (at.within < label.size()) break;
  }
  return at;
}

/// The node at exactly `ids`, made if it is not there.
PrefixCache::Node* PrefixCache::make_node(std::span<const std::int32_t> ids) {
  const Place at = walk(ids);
  Node* node = at.node;
  if (at.within < node->label.size()) {  // a new node in the middle of the label
    std::unique_ptr<Node>& link = node->parent->children[node->label.front()];
    auto upper = std::make_unique<Node>();
    const auto middle = node->label.begin() + static_cast<std::ptrdiff_t>(at.within);
    upper->label.assign(node->label.begin(), middle);
    upper->parent = node->parent;
    node->label.erase(node->label.begin(), middle);
    node->parent = upper.get();
    upper->children[node->label.front()] = std::move(link);
    link = std::move(upper);
    node = link.get();
  }
  if (at.depth == ids.size()) return node;
  auto leaf = std::make_unique<Node>();
  leaf->label.assign(ids.begin() + static_cast<std::ptrdiff_t>(at.depth), ids.end());
  leaf->parent = node;
  return (node->children[leaf->label.front()] = std::move(leaf)).get();
}

/// In the subtree: a node whose sequence can be cut to `length` positions, or null.
PrefixCache::Node* PrefixCache::find_rewindable(Node* node, std::size_t length) const {
  std::vector<Node*> rest{node};
  while (!rest.empty()) {
    Node* const next = rest.back();
    rest.pop_back();
    if (next->sequence && next->sequence->can_rewind(length)) return next;
    for (const auto& [token, child] : next->children) rest.push_back(child.get());
  }
  return nullptr;
}

Sequence PrefixCache::find(std::span<const std::int32_t> ids, std::size_t most) {
  const Place at = walk(ids.first(std::min(most, ids.size())));
  if (at.depth > 0 && !pool_.layout().has(KvLayout::linear))
    if (Node* node = find_rewindable(at.node, at.depth)) {
      use(node);
      return node->sequence->fork(at.depth);
    }
  Node* node = at.within == at.node->label.size() ? at.node : at.node->parent;
  while (node != nullptr && !node->sequence) node = node->parent;
  if (node == nullptr) return Sequence(pool_);
  use(node);
  return *node->sequence;
}

void PrefixCache::insert(std::span<const std::int32_t> ids, const Sequence& sequence) {
  if (budget_ == 0 || ids.empty()) return;
  Node* const node = make_node(ids);
  if (Node* known = find_rewindable(node, ids.size())) {
    use(known);
    return;
  }
  hold(node, sequence);
  std::size_t length = ids.size();
  for (Node* above = node; above->parent != nullptr;) {
    length -= above->label.size();
    above = above->parent;
    if (above->sequence && sequence.can_rewind(length)) drop(above);
  }
  while (bytes_ > budget_ && evict()) {
  }
}

bool PrefixCache::evict() {
  if (by_use_.empty()) return false;
  Node* const node = by_use_.begin()->second;
  drop(node);
  prune(node);
  return true;
}

void PrefixCache::use(Node* node) {
  by_use_.erase(node->used);
  node->used = ++clock_;
  by_use_.emplace(node->used, node);
}

void PrefixCache::hold(Node* node, const Sequence& sequence) {
  node->sequence = sequence;
  use(node);
  for (const auto group : {KvLayout::full, KvLayout::windowed, KvLayout::linear})
    for (const Page& page : sequence.pages(group))
      if (page && ++page_uses_[page.id()] == 1) bytes_ += pool_.layout().page_bytes(group);
}

void PrefixCache::drop(Node* node) {
  for (const auto group : {KvLayout::full, KvLayout::windowed, KvLayout::linear})
    for (const Page& page : node->sequence->pages(group)) {
      if (!page || --page_uses_[page.id()] > 0) continue;
      page_uses_.erase(page.id());
      bytes_ -= pool_.layout().page_bytes(group);
    }
  node->sequence.reset();
  by_use_.erase(node->used);
}

/// Removes a node that leads to no sequence, and those above that then lead to none.
void PrefixCache::prune(Node* node) {
  while (node->parent != nullptr && !node->sequence && node->children.empty()) {
    Node* const parent = node->parent;
    parent->children.erase(node->label.front());
    node = parent;
  }
}

}  // namespace krafla
