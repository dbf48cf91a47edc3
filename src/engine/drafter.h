// Guesses of the tokens that follow a text, for speculative decoding. A wrong guess costs time and changes
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/job.h"
#include "model/forward.h"

namespace krafla {

/// What followed the last tokens of `ids` the last time they occurred before, up to `most` tokens: the latest
/// occurrence of the last three tokens, else of the last two. Empty if there is none. ("Prompt lookup
/// decoding", A. Saxena 2023.)
std::vector<std::int32_t> look_up_drafts(std::span<const std::int32_t> ids, std::size_t most);

/// A smaller model that reads the same texts and takes its likeliest tokens as guesses (Leviathan, Kalman,
/// Matias: "Fast Inference from Transformers via Speculative Decoding", 2023).
class DraftModel {
 public:
  DraftModel(const Model& model, Context& context, KvType kv, std::size_t chunk);
  PagePool& pool() { return pool_; }

  /// Guesses up to `most` tokens for each choice that has a draft_sequence into its `drafts`, all choices in
  /// one batch. A choice whose text the model has yet to read gets none; at most `chunk` tokens a choice are
  /// read in a call.
  void propose(std::span<Choice* const> choices, std::span<const std::size_t> most);

 private:
  bool catch_up(Choice& choice);
  void take_likeliest(std::span<Choice* const> choices);

  const Model& model_;
  Context& context_;
  std::size_t chunk_;
  PagePool pool_;
  Batch batch_;
  std::vector<Feed> feeds_;
  std::vector<float> logits_;
};

}  // namespace krafla
