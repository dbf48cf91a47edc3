// Log-probabilities of one row of logits. In float64 with the functions and the order of sums of
// docs/arithmetic.md (A2, A10), so that they are the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace krafla {

/// A2 in float64: lane i mod 8 adds term(i), then the lanes are folded.
template <class Term>
double lane_sum(std::size_t n, Term&& term) {
  double a[8] = {};
  for (std::size_t i = 0; i < n; ++i) a[i % 8] += term(i);
  return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

/// log softmax of a row x: (x_j - max) - log_sum.
struct LogSoftmax {
  double max = 0;
  double log_sum = 0;   // log Σ exp(x_j - max), an A2 sum
  std::size_t top = 0;  // the likeliest; the first of equals
  bool finite = true;   // false: the row holds a NaN or an infinity, and the rest says nothing

  explicit LogSoftmax(std::span<const float> row);
  double operator()(float logit) const { return (static_cast<double>(logit) - max) - log_sum; }
};

struct TokenLogprob {
  std::int32_t id = 0;
  double logprob = 0;
};

/// The log-probability of a token, and the likeliest ones in its place.
struct TokenLogprobs {
  TokenLogprob token;
  std::vector<TokenLogprob> top;  // (log-probability descending, id ascending)
};

/// Of the model's own distribution: before penalties, temperature and cuts. `logits`: those of the
/// tokenizer's vocabulary; `top`: how many of the likeliest. ML_E_NUMERIC if a logit is NaN or infinite.
TokenLogprobs token_logprobs(std::span<const float> logits, std::int32_t id, std::size_t top);

}  // namespace krafla
