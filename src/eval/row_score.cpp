#include "eval/row_score.h"

#include <cmath>

#include "base/math.h"

namespace krafla {
namespace {

/// A2 in float64: lane i mod 8 adds term(i), then the lanes are folded.
template <class Term>
double lane_sum(std::size_t n, Term&& term) {
  double a[8] = {};
  for (std::size_t i = 0; i < n; ++i) a[i % 8] += term(i);
  return ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
}

}  // namespace

LogSoftmax::LogSoftmax(std::span<const float> row) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    finite = finite && std::isfinite(row[i]);
    if (row[i] > row[top]) top = i;
  }
  if (!finite) return;
  max = static_cast<double>(row[top]);
  log_sum = math::log(
      lane_sum(row.size(), [&](std::size_t i) { return math::exp(static_cast<double>(row[i]) - max); }));
}

double divergence(std::span<const float> p, const LogSoftmax& p_log, std::span<const float> q,
                  const LogSoftmax& q_log) {
  return lane_sum(p.size(), [&](std::size_t i) {
    const double log_p = p_log(p[i]);
    return math::exp(log_p) * (log_p - q_log(q[i]));
  });
}

}  // namespace krafla
