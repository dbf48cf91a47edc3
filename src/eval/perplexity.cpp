#include "eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/math.h"
#include "eval/row_score.h"
#include "eval/windows.h"

namespace krafla {
namespace {

constexpr std::size_t kRows = 16;  // logits held at a time

/// One position's values; `base` says nothing without a base.
struct RowScore {
  bool finite = true, base_finite = true;
  double nll = 0, base_nll = 0, kl = 0, dp = 0;
  bool same_top = false;
};

RowScore score_row(std::span<const float> row, std::optional<std::span<const float>> base,
                   std::size_t token) {
  RowScore out;
  const LogSoftmax log_q(row);
  out.finite = log_q.finite;
  out.nll = -log_q(row[token]);
  if (!base) return out;
  const LogSoftmax log_p(*base);
  out.base_finite = log_p.finite;
  if (!out.finite || !out.base_finite) return out;
  out.base_nll = -log_p((*base)[token]);
  out.kl = divergence(*base, log_p, row, log_q);
  out.dp = math::exp(-out.nll) - math::exp(-out.base_nll);
  out.same_top = log_p.top == log_q.top;
  return out;
}

class Scorer {
 public:
  Scorer(const ScoredText& text, RowSource& model, RowSource* base, MllWriter* save, ThreadPool& threads,
         const ScoreOptions& options)
      : text_(text), model_(model), base_(base), save_(save), threads_(threads), options_(options) {
    const auto rows = static_cast<std::size_t>(text.windows.rows());
    scores_.nll.reserve(rows);
    if (base == nullptr) return;
    for (std::vector<double>* values : {&scores_.base_nll, &scores_.kl, &scores_.dp, &scores_.same_top})
      values->reserve(rows);
  }

  Scores run() {
    for (index_ = 0; index_ < text_.windows.count; ++index_) {
      window_ = text_.windows[index_];
      window_ids(text_.ids, window_, text_.bos, ids_);
      model_.begin_window();
      if (base_ != nullptr) base_->begin_window();
      const std::size_t end = window_.count - 1;  // nothing is expected of the last token
      for (std::size_t i = 0; i < end; i += options_.batch) feed(i, std::min(end, i + options_.batch));
      if (options_.progress)
        options_.progress(index_ + 1, math::exp(total_ / static_cast<double>(scores_.nll.size())));
    }
    return std::move(scores_);
  }

 private:
  /// The positions [begin, end) of the window.
  void feed(std::size_t begin, std::size_t end) {
    const auto ids = std::span(ids_).subspan(begin, end - begin);
    const std::size_t first = std::max(begin, window_.first);
    const std::size_t scored = first < end ? end - first : 0;
    model_.feed(ids, scored);
    if (base_ != nullptr) base_->feed(ids, scored);
    for (std::size_t i = 0; i < scored; i += kRows) score(first, i, std::min(kRows, scored - i));
  }

  /// Rows [from, from + count) of the last feed, whose first is that of position `first`.
  void score(std::size_t first, std::size_t from, std::size_t count) {
    const float* rows = model_.rows(from, count);
    const float* base = base_ != nullptr ? base_->rows(from, count) : nullptr;
    const auto row_of = [&](const float* all, const RowSource& source, std::size_t i) {
      return std::span<const float>(all + i * source.stride(), text_.vocab);
    };
    const auto token_after = [&](std::size_t i) {
      return static_cast<std::size_t>(ids_[first + from + i + 1]);
    };
    RowScore results[kRows];
    threads_.run(count, [&](std::size_t i, int) {
      results[i] = score_row(row_of(rows, model_, i),
                             base ? std::optional(row_of(base, *base_, i)) : std::nullopt, token_after(i));
    });
    for (std::size_t i = 0; i < count; ++i) {
      check(results[i], first + from + i);
      add(results[i]);
      if (save_ != nullptr) save_->add(row_of(rows, model_, i));
    }
  }

  void check(const RowScore& row, std::size_t position) const {
    if (!row.finite || !row.base_finite)
      fail(ML_E_NUMERIC, "window {}, position {} (token {} of the text): a logit {}is NaN or infinite",
           index_, position, window_.begin + position, row.finite ? "of the base " : "");
  }

  void add(const RowScore& row) {
    scores_.nll.push_back(row.nll);
    total_ += row.nll;
    if (base_ == nullptr) return;
    scores_.base_nll.push_back(row.base_nll);
    scores_.kl.push_back(row.kl);
    scores_.dp.push_back(row.dp);
    scores_.same_top.push_back(row.same_top ? 1 : 0);
  }

  const ScoredText& text_;
  RowSource& model_;
  RowSource* base_;
  MllWriter* save_;
  ThreadPool& threads_;
  const ScoreOptions& options_;
  Scores scores_;
  double total_ = 0;
  std::size_t index_ = 0;
  Window window_{};
  std::vector<std::int32_t> ids_;  // of the window
};

}  // namespace

Scores score_text(const ScoredText& text, RowSource& model, RowSource* base, MllWriter* save,
                  ThreadPool& threads, const ScoreOptions& options) {
  return Scorer(text, model, base, save, threads, options).run();
}

Estimate mean_of(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / n;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean,
          values.size() > 1 ? std::sqrt(squares / n / (n - 1)) : std::numeric_limits<double>::quiet_NaN()};
}

Estimate exp_of(Estimate log) {
  const double value = math::exp(log.value);
  return {value, value * log.error};
}

double quantile(std::span<const double> ascending, double q) {
  const double place = q * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, ascending.size() - 1);
  const double part = place - static_cast<double>(below);
  return (1 - part) * ascending[below] + part * ascending[above];
}

Divergence summarize(const Scores& scores) {
  Divergence out;
  out.base_ppl = exp_of(mean_of(scores.base_nll));
  std::vector<double> values(scores.nll.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = scores.nll[i] - scores.base_nll[i];
  out.ppl_ratio =
      exp_of(mean_of(values));  // of paired differences: what both find hard does not blur the ratio

  out.kl = mean_of(scores.kl);
  values = scores.kl;
  std::sort(values.begin(), values.end());
  out.median = quantile(values, 0.5);
  out.q90 = quantile(values, 0.9);
  out.q95 = quantile(values, 0.95);
  out.q99 = quantile(values, 0.99);
  out.q999 = quantile(values, 0.999);
  out.max = values.back();

  out.mean_dp = mean_of(scores.dp);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = scores.dp[i] * scores.dp[i];
  const Estimate square = mean_of(values);
  const double rms = std::sqrt(square.value);
  out.rms_dp = {rms, rms > 0 ? square.error / (2 * rms) : square.error};
  out.same_top = mean_of(scores.same_top);
  return out;
}

}  // namespace krafla
