#include "sample/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/math.h"
#include "sample/philox.h"

namespace krafla {
namespace {

constexpr std::int32_t kMaxCount = 1 << 24;

void check(const char* option, double value, bool good, const char* allowed) {
  if (!good) fail(ML_E_ARG, "{} is {}, allowed is {}", option, value, allowed);
}

/// Ascending keys are candidates in order: logit descending, then id ascending. -0 equals +0; NaN must not
/// come here.
std::uint64_t key_of(float logit, std::size_t id) {
  const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0f);
  const std::uint32_t ascending = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return std::uint64_t{~ascending} << 32 | id;
}

std::int32_t id_of(std::uint64_t key) { return static_cast<std::int32_t>(key & 0xffffffffu); }

/// The largest of the logits that are numbers (-inf if none is), and whether any is NaN; in lanes, which
/// compilers turn into vectors.
std::pair<float, bool> survey(std::span<const float> logits) {
  constexpr std::size_t kLanes = 16;
  float largest[kLanes];
  std::uint32_t nans[kLanes] = {};
  std::fill_n(largest, kLanes, -INFINITY);
  const auto see = [&](std::size_t lane, float l) {
    largest[lane] = l > largest[lane] ? l : largest[lane];
    nans[lane] |= l != l ? 1u : 0u;
  };
  std::size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) see(lane, logits[i + lane]);
  for (; i < logits.size(); ++i) see(0, logits[i]);
  return {*std::max_element(largest, largest + kLanes),
          std::any_of(nans, nans + kLanes, [](std::uint32_t n) { return n != 0; })};
}

double uniform(const SamplingOptions& options, const DrawCounter& counter) {
  const auto x =
      philox4x32({counter.position, counter.choice, counter.draw, 0},
                 {static_cast<std::uint32_t>(options.seed), static_cast<std::uint32_t>(options.seed >> 32)});
  return (x[0] >> 5) * 0x1p-27 + (x[1] >> 6) * 0x1p-53;
}

/// One call of sample().
class Draw {
 public:
  Draw(const SamplingOptions& options, SampleScratch& scratch)
      : options_(options), logits_(scratch.logits), candidates_(scratch.candidates), mask_(scratch.mask) {}

  void adjust(std::span<const float> logits, const TokenCounts& history, TokenMask* mask);
  std::int32_t best() const;
  std::int32_t draw(const DrawCounter& counter);

 private:
  void rule_out(TokenMask& mask);
  void penalize(const TokenCounts& history);
  void select(std::size_t n);
  void select_more() { select(std::max<std::size_t>(128, 8 * selected_)); }
  float weight(std::size_t candidate) const;
  double total() const;
  std::size_t cut(double sum);

  const SamplingOptions& options_;
  std::vector<float>& logits_;
  std::vector<std::uint64_t>&candidates_, &mask_;
  float max_ = 0;
  std::size_t selected_ = 0;  // of candidates_: final and in order
};

/// Fills logits_ and max_: steps 1 to 3.
void Draw::adjust(std::span<const float> logits, const TokenCounts& history, TokenMask* mask) {
  if (logits.empty()) fail(ML_E_ARG, "there are no logits to sample from");
  logits_.assign(logits.begin(), logits.end());
  for (const auto& [id, bias] : options_.logit_bias)
    if (static_cast<std::size_t>(id) < logits_.size()) logits_[static_cast<std::size_t>(id)] += bias;
  if (mask != nullptr) rule_out(*mask);
  if (uses_penalties(options_)) penalize(history);
  const auto [largest, nan] = survey(logits_);
  max_ = largest;
  if (nan) fail(ML_E_NUMERIC, "a NaN among the logits: the model's weights are broken");
  if (std::isinf(max_))
    fail(ML_E_NUMERIC, "the largest logit is {}: the model's weights are broken, or every token is ruled out",
         max_);
}

void Draw::rule_out(TokenMask& mask) {
  mask_.assign((logits_.size() + 63) / 64, 0);
  mask.allow(mask_);
  for (std::size_t id = 0; id < logits_.size(); ++id)
    if ((mask_[id / 64] >> (id % 64) & 1) == 0) logits_[id] = -INFINITY;
}

void Draw::penalize(const TokenCounts& history) {
  for (const std::int32_t id : history.distinct()) {
    if (static_cast<std::size_t>(id) >= logits_.size()) continue;
    float& l = logits_[static_cast<std::size_t>(id)];
    if (options_.repetition_penalty != 1)
      l = l > 0 ? l / options_.repetition_penalty : l * options_.repetition_penalty;
    l -= static_cast<float>(history.count(id)) * options_.frequency_penalty + options_.presence_penalty;
  }
}

/// The first of the largest.
std::int32_t Draw::best() const {
  return static_cast<std::int32_t>(std::find(logits_.begin(), logits_.end(), max_) - logits_.begin());
}

/// Puts the first n candidates (or all there are) in order into candidates_. Linear time and little memory
/// for small n: keys that cannot be among them are dropped as soon as n better ones are known.
void Draw::select(std::size_t n) {
  n = std::min(n, logits_.size());
  candidates_.clear();
  const std::size_t room = std::max<std::size_t>(4 * n, 256);
  std::uint64_t worst = UINT64_MAX;
  for (std::size_t id = 0; id < logits_.size(); ++id) {
    const std::uint64_t key = key_of(logits_[id], id);
    if (key > worst) continue;
    candidates_.push_back(key);
    if (candidates_.size() < room) continue;
    std::nth_element(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(n - 1),
                     candidates_.end());
    candidates_.resize(n);
    worst = candidates_.back();
  }
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(n),
                    candidates_.end());
  candidates_.resize(n);
  selected_ = n;
}

/// Of a selected candidate.
float Draw::weight(std::size_t candidate) const {
  return math::exp((logits_[static_cast<std::size_t>(id_of(candidates_[candidate]))] - max_) /
                   options_.temperature);
}

/// The sum of all weights in the order of ids.
double Draw::total() const {
  double sum = 0;
  for (const float l : logits_) sum += double{math::exp((l - max_) / options_.temperature)};
  return sum;
}

/// How many candidates top_p and min_p leave; `sum` is that of all so far. Selects as many as it looks at.
std::size_t Draw::cut(double sum) {
  const std::size_t all = options_.top_k > 0 ? selected_ : logits_.size();
  if (options_.top_p == 1 && options_.min_p == 0) return all;
  const double enough = options_.top_p < 1 ? double{options_.top_p} * sum : INFINITY;
  double running = 0;
  for (std::size_t i = 0; i < all; ++i) {
    if (i == selected_) select_more();
    const float w = weight(i);
    if (w < options_.min_p && i > 0) return i;
    running += double{w};
    if (running >= enough) return i + 1;
  }
  return all;
}

std::int32_t Draw::draw(const DrawCounter& counter) {
  candidates_.clear();
  double sum = 0;
  if (options_.top_k > 0) {
    select(static_cast<std::size_t>(options_.top_k));
    for (std::size_t i = 0; i < selected_; ++i) sum += double{weight(i)};
  } else if (options_.top_p < 1 || options_.min_p == 0) {
    sum = total();
  }
  const std::size_t kept = cut(sum);
  if (options_.top_p < 1 || options_.min_p > 0) {
    sum = 0;
    for (std::size_t i = 0; i < kept; ++i) sum += double{weight(i)};
  }
  const double target = uniform(options_, counter) * sum;
  double running = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    if (i == selected_) select_more();
    const float w = weight(i);
    running += double{w};
    if (w > 0) last = i;
    if (running > target) return id_of(candidates_[i]);
  }
  return id_of(candidates_[last]);  // only by rounding: the sum was added in another order
}

}  // namespace

void check_sampling_options(const SamplingOptions& o, std::size_t vocab) {
  // Written so that NaN fails each of them.
  check("temperature", o.temperature, o.temperature >= 0 && o.temperature <= 100, "0 (greedy) to 100");
  check("top_k", o.top_k, o.top_k >= 0 && o.top_k <= kMaxCount, "0 (off) to 16777216");
  check("top_p", o.top_p, o.top_p > 0 && o.top_p <= 1, "above 0, at most 1 (off)");
  check("min_p", o.min_p, o.min_p >= 0 && o.min_p <= 1, "0 (off) to 1");
  check("repetition_penalty", o.repetition_penalty, o.repetition_penalty > 0 && o.repetition_penalty <= 100,
        "above 0, at most 100; 1 is off");
  check("presence_penalty", o.presence_penalty, o.presence_penalty >= -2 && o.presence_penalty <= 2,
        "-2 to 2; 0 is off");
  check("frequency_penalty", o.frequency_penalty, o.frequency_penalty >= -2 && o.frequency_penalty <= 2,
        "-2 to 2; 0 is off");
  check("penalty_window", o.penalty_window, o.penalty_window >= -1 && o.penalty_window <= kMaxCount,
        "-1 (all) to 16777216");
  for (const auto& [id, bias] : o.logit_bias) {
    if (id < 0 || static_cast<std::size_t>(id) >= vocab)
      fail(ML_E_ARG, "logit_bias has the id {}, allowed is less than {}", id, vocab);
    check("a logit_bias", bias, bias >= -100 && bias <= 100, "-100 to 100");
  }
}

bool uses_penalties(const SamplingOptions& options) {
  return options.repetition_penalty != 1 || options.presence_penalty != 0 || options.frequency_penalty != 0;
}

std::int32_t sample(const SamplingOptions& options, SampleScratch& scratch, std::span<const float> logits,
                    const TokenCounts& history, const DrawCounter& counter, TokenMask* mask) {
  Draw draw(options, scratch);
  draw.adjust(logits, history, mask);
  return options.temperature == 0 ? draw.best() : draw.draw(counter);
}

}  // namespace krafla
