#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <tuple>
#include <utility>

namespace krafla {

BackwardMatcher::BackwardMatcher(std::vector<Text> texts) : ends_(256) {
  const auto backwards = [](const Text& a, const Text& b) {
    return std::lexicographical_compare(
        a.bytes.rbegin(), a.bytes.rend(), b.bytes.rbegin(), b.bytes.rend(),
        [](char x, char y) { return static_cast<std::uint8_t>(x) < static_cast<std::uint8_t>(y); });
  };
  std::sort(texts.begin(), texts.end(), backwards);
  for (const Text& text : texts) ends_[static_cast<std::uint8_t>(text.bytes.back())] = true;
  if (std::count(ends_.begin(), ends_.end(), true) == 1)
    only_end_ = static_cast<std::uint8_t>(texts[0].bytes.back());

  // Nodes of one depth after those of the one before: what a node's `shorter` leads to is there when it is
  // needed.
  struct Pending {
    std::size_t first, last, depth;  // the texts [first, last) end with the node's `depth` bytes
  };
  std::deque<Pending> pending = {{0, texts.size(), 0}};
  nodes_.emplace_back();
  for (std::uint32_t i = 0; !pending.empty(); ++i) {
    auto [first, last, depth] = pending.front();
    pending.pop_front();
    const std::uint32_t shorter = nodes_[i].shorter;
    nodes_[i].length = nodes_[shorter].length;
    nodes_[i].id = nodes_[shorter].id;
    if (depth > 0 && texts[first].bytes.size() == depth) {
      nodes_[i].length = static_cast<std::uint32_t>(depth);
      nodes_[i].id = texts[first++].id;
    }
    nodes_[i].first_child = static_cast<std::uint32_t>(nodes_.size());
    while (first < last) {
      const auto byte_of = [&](std::size_t text) {
        return static_cast<std::uint8_t>(texts[text].bytes.rbegin()[static_cast<std::ptrdiff_t>(depth)]);
      };
      Node node;
      node.byte = byte_of(first);
      node.shorter = i == 0 ? 0 : next(shorter, node.byte);
      const std::size_t begin = first;
      while (first < last && byte_of(first) == node.byte) ++first;
      pending.push_back({begin, first, depth + 1});
      nodes_.push_back(node);
      ++nodes_[i].children;
    }
  }
}

/// 0: there is none.
std::uint32_t BackwardMatcher::child(std::uint32_t node, std::uint8_t byte) const {
  const auto first = nodes_.begin() + nodes_[node].first_child, last = first + nodes_[node].children;
  const auto found =
      std::lower_bound(first, last, byte, [](const Node& n, std::uint8_t b) { return n.byte < b; });
  return found != last && found->byte == byte ? static_cast<std::uint32_t>(found - nodes_.begin()) : 0;
}

std::uint32_t BackwardMatcher::next(std::uint32_t node, std::uint8_t byte) const {
  for (;; node = nodes_[node].shorter)
    if (const std::uint32_t found = child(node, byte); found != 0 || node == 0) return found;
}

/// One past the last byte of text[begin, end) that a text ends with; `begin` if there is none.
std::size_t BackwardMatcher::last_end(std::string_view text, std::size_t begin, std::size_t end) const {
  if (only_end_ >= 0) {
    const void* at = ::memrchr(text.data() + begin, only_end_, end - begin);
    return at == nullptr ? begin : static_cast<std::size_t>(static_cast<const char*>(at) - text.data()) + 1;
  }
  while (end > begin && !ends_[static_cast<std::uint8_t>(text[end - 1])]) --end;
  return end;
}

AddedTokens::AddedTokens(const Mlt& mlt, const std::vector<bool>& control) {
  for (std::size_t i = 0; i < mlt.tokens.size(); ++i)
    if (mlt.tokens[i].attr == kMltAdded && !mlt.tokens[i].bytes.empty())
      tokens_.push_back({std::string(mlt.tokens[i].bytes), static_cast<std::int32_t>(i)});
  std::sort(tokens_.begin(), tokens_.end(),
            [](const Token& a, const Token& b) { return std::tie(a.bytes, a.id) < std::tie(b.bytes, b.id); });
  const auto same = [](const Token& a, const Token& b) { return a.bytes == b.bytes; };
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end(), same), tokens_.end());  // the lowest id stays
  std::vector<BackwardMatcher::Text> controls, others;
  for (const Token& token : tokens_)
    (control[static_cast<std::size_t>(token.id)] ? controls : others).push_back({token.bytes, token.id});
  control_ = BackwardMatcher(std::move(controls));
  others_ = BackwardMatcher(std::move(others));
}

std::vector<AddedTokens::Match> AddedTokens::find_all(std::string_view text, bool controls,
                                                      std::span<const TextRange> literal) const {
  std::vector<Match> matches;  // of both kinds the longest at each place, the last place first
  const auto add = [&](std::size_t at, std::uint32_t length, std::int32_t id) {
    matches.push_back({static_cast<std::uint32_t>(at), length, id});
  };
  others_.walk(text, 0, text.size(), add);
  const auto n_others = static_cast<std::ptrdiff_t>(matches.size());
  std::size_t end = controls ? text.size() : 0;
  for (auto range = literal.rbegin(); range != literal.rend() && controls; ++range) {
    control_.walk(text, range->second, end, add);
    end = std::min(range->first, end);
  }
  control_.walk(text, 0, end, add);
  std::inplace_merge(matches.begin(), matches.begin() + n_others, matches.end(),
                     [](const Match& a, const Match& b) {
                       return std::tie(a.at, b.length) >
                              std::tie(b.at, a.length);  // the longer one last, which comes first then
                     });
  std::reverse(matches.begin(), matches.end());
  std::size_t done = 0;
  std::erase_if(matches, [&](const Match& match) {
    if (match.at < done) return true;
    done = std::size_t{match.at} + match.length;
    return false;
  });
  return matches;
}

std::int32_t AddedTokens::find(std::string_view bytes) const {
  const auto it = std::lower_bound(tokens_.begin(), tokens_.end(), bytes,
                                   [](const Token& t, std::string_view b) { return t.bytes < b; });
  return it != tokens_.end() && it->bytes == bytes ? it->id : -1;
}

}  // namespace krafla
