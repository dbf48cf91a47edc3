#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <tuple>
#include <utility>

namespace krafla {

BackwardMatcher::BackwardMatcher(const std::vector<TextAutomaton::Pattern>& patterns) : last_byte_(256) {
  std::deque<std::string> bytes;  // a deque, because the views below must stay valid as it grows
  std::vector<TextAutomaton::Pattern> reversed;
  for (const TextAutomaton::Pattern& pattern : patterns) {
    bytes.emplace_back(pattern.bytes.rbegin(), pattern.bytes.rend());
    reversed.push_back({bytes.back(), pattern.id});
    last_byte_[static_cast<std::uint8_t>(pattern.bytes.back())] = true;
  }
  reversed_ = TextAutomaton(std::move(reversed));
  if (std::count(last_byte_.begin(), last_byte_.end(), true) == 1)
    only_last_byte_ = static_cast<std::uint8_t>(patterns[0].bytes.back());
}

/// The end of the last byte of text[begin, end) that a pattern ends with; `begin` if there is no such byte.
std::size_t BackwardMatcher::last_end(std::string_view text, std::size_t begin, std::size_t end) const {
  if (only_last_byte_ >= 0) {
    const void* at = ::memrchr(text.data() + begin, only_last_byte_, end - begin);
    return at == nullptr ? begin : static_cast<std::size_t>(static_cast<const char*>(at) - text.data()) + 1;
  }
  while (end > begin && !last_byte_[static_cast<std::uint8_t>(text[end - 1])]) --end;
  return end;
}

AddedTokens::AddedTokens(const Mlt& mlt, const std::vector<bool>& control) {
  for (std::size_t i = 0; i < mlt.tokens.size(); ++i)
    if (mlt.tokens[i].attr == kMltAdded && !mlt.tokens[i].bytes.empty())
      tokens_.push_back({std::string(mlt.tokens[i].bytes), static_cast<std::int32_t>(i)});
  std::sort(tokens_.begin(), tokens_.end(),
            [](const Token& a, const Token& b) { return std::tie(a.bytes, a.id) < std::tie(b.bytes, b.id); });
  const auto same = [](const Token& a, const Token& b) { return a.bytes == b.bytes; };
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end(), same), tokens_.end());  // the lowest id is kept
  std::vector<TextAutomaton::Pattern> controls, others;
  for (const Token& token : tokens_)
    (control[static_cast<std::size_t>(token.id)] ? controls : others).push_back({token.bytes, token.id});
  control_ = BackwardMatcher(controls);
  others_ = BackwardMatcher(others);
}

std::vector<AddedTokens::Match> AddedTokens::find_all(std::string_view text, bool controls,
                                                      std::span<const TextRange> literal) const {
  std::vector<Match> matches;  // the longest of each kind at each place, the last place first
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
  // At one place the shorter match comes first: after the reversal below, the longer one does.
  std::inplace_merge(
      matches.begin(), matches.begin() + n_others, matches.end(),
      [](const Match& a, const Match& b) { return std::tie(a.at, b.length) > std::tie(b.at, a.length); });
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
