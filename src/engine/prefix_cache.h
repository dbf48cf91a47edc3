// What earlier requests have computed, by their tokens: one tree for all texts of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "model/state/sequence.h"

namespace krafla {

/// A radix tree of token ids. Nodes hold sequences, whose pages they share with each other and with running
/// requests. What was used least recently goes first. Used by one thread.
///
/// A model whose layers keep all of their past finds the longest common beginning with any text. Linear
/// layers can be gone on with only where a sequence was inserted; layers with a window also a little before.
class PrefixCache {
 public:
  /// `budget`: bytes of pages that are kept; 0: nothing is. The pool must outlive it.
  PrefixCache(PagePool& pool, std::size_t budget) : pool_(pool), budget_(budget) {}

  /// Keeps the sequence, whose positions are `ids`. It replaces those that it makes needless.
  void insert(std::span<const std::int32_t> ids, const Sequence& sequence);
  /// A copy of the longest known beginning of `ids`, of at most `most` positions; empty if there is none.
  Sequence find(std::span<const std::int32_t> ids, std::size_t most);
  /// Forgets the sequence used least recently; false if there is none.
  bool evict();

  /// Bytes of the pages held.
  std::size_t bytes() const { return bytes_; }
  /// Sequences held.
  std::size_t size() const { return by_use_.size(); }

 private:
  struct Node {
    std::vector<std::int32_t> label;  // the tokens from the parent to here
    Node* parent = nullptr;
    std::map<std::int32_t, std::unique_ptr<Node>> children;  // by the first token of their labels
    std::optional<Sequence> sequence;
    std::uint64_t used = 0;  // key in by_use_
  };
  /// Where a walk along some tokens ends: `within` tokens of the node's label were matched, all of them or
  /// not.
  struct Place {
    Node* node;
    std::size_t within;
    std::size_t depth;  // tokens matched
  };
  Place walk(std::span<const std::int32_t> ids);
  Node* make_node(std::span<const std::int32_t> ids);
  Node* find_rewindable(Node* node, std::size_t length) const;
  void use(Node* node);
  void hold(Node* node, const Sequence& sequence);
  void drop(Node* node);
  void prune(Node* node);

  PagePool& pool_;
  std::size_t budget_, bytes_ = 0;
  Node root_;
  std::uint64_t clock_ = 0;
  std::map<std::uint64_t, Node*> by_use_;  // the nodes with sequences, the least recently used first
  std::unordered_map<const void*, std::size_t> page_uses_;  // by Page::id: sequences that hold the page
};

}  // namespace krafla
