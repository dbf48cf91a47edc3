// What one row of logits says about the token that came, and how far another row is from it. In float64 with
// the functions and the order of sums of docs/arithmetic.md (A2, A10), so that the figures are the same on
// every machine.
#pragma once

#include <cstddef>
#include <span>

namespace krafla {

/// log softmax of a row x: (x_j - max) - log_sum.
struct LogSoftmax {
  double max = 0;
  double log_sum = 0;   // log Σ exp(x_j - max), an A2 sum
  std::size_t top = 0;  // the likeliest; the first of equals
  bool finite = true;   // false: the row holds a NaN or an infinity, and the rest says nothing

  explicit LogSoftmax(std::span<const float> row);
  double operator()(float logit) const { return (static_cast<double>(logit) - max) - log_sum; }
};

/// KL(P ‖ Q) = Σ p (log p - log q) of two rows of one length, an A2 sum.
double divergence(std::span<const float> p, const LogSoftmax& p_log, std::span<const float> q,
                  const LogSoftmax& q_log);

}  // namespace krafla
