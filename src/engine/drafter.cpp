#include "engine/drafter.h"

#include <algorithm>

namespace krafla {

std::vector<std::int32_t> look_up_drafts(std::span<const std::int32_t> ids, std::size_t most) {
  for (const std::size_t size : {3u, 2u}) {
    if (ids.size() <= size) continue;
    const auto last = ids.last(size), before = ids.first(ids.size() - 1);
    const auto found = std::find_end(before.begin(), before.end(), last.begin(), last.end());
    if (found == before.end()) continue;
    const auto next = ids.subspan(static_cast<std::size_t>(found - before.begin()) + size);
    const auto taken = next.first(std::min(most, next.size()));
    return {taken.begin(), taken.end()};
  }
  return {};
}

DraftModel::DraftModel(const Model& model, Context& context, KvType kv, std::size_t chunk)
    : model_(model), context_(context), chunk_(chunk), pool_(KvLayout(model.config(), kv)) {}

/// Adds the feed of what the model has not read of the choice's text. False if that is more than a call
/// takes: then a part is read at once.
bool DraftModel::catch_up(Choice& choice) {
  Sequence& sequence = *choice.draft_sequence;
  const auto same =
      std::mismatch(choice.draft_ids.begin(), choice.draft_ids.end(), choice.ids.begin(), choice.ids.end());
  const auto known =
      std::min(static_cast<std::size_t>(same.first - choice.draft_ids.begin()), choice.ids.size() - 1);
  sequence.rewind(known);
  const auto missing = std::span<const std::int32_t>(choice.ids).subspan(known);
  const auto read = missing.first(std::min(chunk_, missing.size()));
  choice.draft_ids.resize(known);
  choice.draft_ids.insert(choice.draft_ids.end(), read.begin(), read.end());
  if (read.size() < missing.size()) {
    const Feed feed{&sequence, read, Wants::none};
    forward(model_, context_, batch_, {&feed, 1});
    return false;
  }
  feeds_.push_back({&sequence, read, Wants::last});
  return true;
}

void DraftModel::take_likeliest(std::span<Choice* const> choices) {
  const std::size_t vocab = model_.config().vocab;
  forward(model_, context_, batch_, feeds_);
  logits_.resize(choices.size() * vocab);
  classify(model_, context_, batch_, 0, choices.size(), logits_.data());
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const auto row = std::span<const float>(logits_).subspan(i * vocab, vocab);
    choices[i]->drafts.push_back(
        static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin()));
  }
}

void DraftModel::propose(std::span<Choice* const> choices, std::span<const std::size_t> most) {
  std::vector<Choice*> ready;
  std::vector<std::size_t> left;
  feeds_.clear();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    choices[i]->drafts.clear();
    if (choices[i]->ids.size() + most[i] > model_.config().max_seq || most[i] == 0 || !catch_up(*choices[i]))
      continue;
    ready.push_back(choices[i]);
    left.push_back(most[i]);
  }
  while (!ready.empty()) {
    take_likeliest(ready);
    feeds_.clear();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < ready.size(); ++i) {
      if (ready[i]->drafts.size() >= left[i]) continue;
      ready[kept] = ready[i];
      left[kept++] = left[i];
      ready[kept - 1]->draft_ids.push_back(ready[kept - 1]->drafts.back());
      feeds_.push_back(
          {ready[kept - 1]->draft_sequence.get(), std::span(ready[kept - 1]->drafts).last(1), Wants::last});
    }
    ready.resize(kept);
    left.resize(kept);
  }
}

}  // namespace krafla
