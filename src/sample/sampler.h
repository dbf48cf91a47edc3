// A logit becomes the next token. Goal: the same logits, history, options and counters give the same token
// everywhere, and no 150,000 candidates are sorted where a few will do.
//
// The steps, in this order (that of transformers); each is skipped at its neutral value:
//   1. logit_bias            l + bias; then tokens that the mask rules out are -inf
//   2. repetition_penalty    each distinct token of the window: l > 0 ? l / penalty : l * penalty
//   3. frequency, presence   each distinct token of the window: l - (count * frequency + presence)
//   4. temperature           weights w = exp((l - max) / temperature), max being the largest l; 0: greedy,
//   the first
//                            candidate is taken
//   5. top_k                 the first k candidates
//   6. top_p                 the shortest run of first candidates whose weights sum to at least top_p * (sum
//   over the
//                            candidates left)
//   7. min_p                 candidates with w >= min_p (the first one's w is 1)
//   8. draw                  u = 53 random bits in [0, 1); the first candidate at which the running sum
//   exceeds
//                            u * (sum over those left)
// Candidates are ordered by (l descending, id ascending). l, w and steps 1 to 5 are floats. Sums are doubles
// of the float weights, added in the order of the candidates; the sum of all of them, needed where top_k is
// off, in the order of ids. Random words: Philox 4x32-10 with key (seed low, seed high), counter (position,
// choice, draw, 0); u = (x0 >> 5) * 2^-27 + (x1 >> 6) * 2^-53.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sample/token_counts.h"
#include "sample/token_mask.h"

namespace krafla {

/// Defaults are the neutral values: plain sampling from the model's distribution.
struct SamplingOptions {
  float temperature = 1;         // 0 to 100; 0: greedy
  std::int32_t top_k = 0;        // 0 to 2^24; 0: off
  float top_p = 1;               // above 0, at most 1; 1: off
  float min_p = 0;               // 0 to 1; 0: off
  float repetition_penalty = 1;  // above 0, at most 100; 1: off
  float presence_penalty = 0;    // -2 to 2; 0: off
  float frequency_penalty = 0;   // -2 to 2; 0: off
  std::int32_t penalty_window =
      -1;  // the last so many tokens of the history are penalized; -1: all; at most 2^24
  std::vector<std::pair<std::int32_t, float>> logit_bias;  // (id, -100 to 100)
  std::uint64_t seed = 0;
};

/// ML_E_ARG naming option, value and allowed range, if one is outside its range. `vocab`: the tokenizer's
/// number of tokens.
void check_sampling_options(const SamplingOptions& options, std::size_t vocab);

/// Which random number a token is drawn with.
struct DrawCounter {
  std::uint32_t position = 0;  // of the token drawn, in its sequence
  std::uint32_t choice = 0;    // of several answers to one prompt
  std::uint32_t draw = 0;      // of several tokens drawn for one position
};

/// Whether the options need TokenCounts.
bool uses_penalties(const SamplingOptions& options);

/// Memory of a thread that samples, kept between calls.
struct SampleScratch {
  std::vector<float> logits;              // adjusted, by id
  std::vector<std::uint64_t> candidates;  // keys in order
  std::vector<std::uint64_t> mask;        // bits by id
};

/// The next token's id. `logits`: one for each token of the tokenizer's vocabulary (a model's padding rows
/// are left out); `history`: the text so far, empty where no penalty is used; `mask`: null, or what may come
/// next. ML_E_NUMERIC if a logit is NaN, the largest is +inf, or no token is left. ML_E_ARG if there are no
/// logits.
std::int32_t sample(const SamplingOptions& options, SampleScratch& scratch, std::span<const float> logits,
                    const TokenCounts& history, const DrawCounter& counter, TokenMask* mask = nullptr);

}  // namespace krafla
