// How well a model predicts a text, and how far its predictions are from another's. The same text, model and
// options give the same figures for any number of threads, any batch and any machine.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "eval/rows.h"
#include "formats/mll.h"

namespace krafla {

struct ScoreOptions {
  std::size_t batch = 256;  ///< tokens a forward call; changes no bit of the result
  /// Called after each window with the number done and the perplexity so far.
  std::function<void(std::size_t windows, double ppl)> progress;
};

/// One value for every scored position, in order. Those of the base are empty without one.
struct Scores {
  std::vector<double> nll;       // -log p of the token that came
  std::vector<double> base_nll;  // the same, for the base
  std::vector<double> kl;        // KL(base ‖ model)
  std::vector<double> dp;        // p of the token that came, the model's less the base's
  std::vector<double> same_top;  // 1 if both think the same token the likeliest, else 0
};

/// Reads the text window by window. Only the first text.vocab logits of a row count. `base` and `save` may be
/// null. Memory does not grow with vocab × window. ML_E_NUMERIC for a logit that is NaN or infinite, naming
/// window and position.
Scores score_text(const ScoredText& text, RowSource& model, RowSource* base, MllWriter* save,
                  ThreadPool& threads, const ScoreOptions& options);

/// A figure and its standard error.
struct Estimate {
  double value = 0;
  double error = 0;
};

/// Mean and standard error sqrt(Σ(x - mean)² / n / (n - 1)) (NaN, unknown, for one value); float64,
/// ascending.
Estimate mean_of(std::span<const double> values);

/// exp of a mean, its error carried over: exp(value) · error.
Estimate exp_of(Estimate log);

/// The q-th quantile of ascending values, linear between neighbours (numpy's default).
double quantile(std::span<const double> ascending, double q);

/// How far a model is from its base, as docs/quality.md defines it. Probabilities, not percent.
struct Divergence {
  Estimate base_ppl, ppl_ratio;
  Estimate kl;
  double median = 0, q90 = 0, q95 = 0, q99 = 0, q999 = 0, max = 0;  // of kl
  Estimate mean_dp, rms_dp, same_top;
};
Divergence summarize(const Scores& scores);

}  // namespace krafla
