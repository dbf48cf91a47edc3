#include "eval/row_score.h"

#include "base/math.h"

namespace krafla {

double divergence(std::span<const float> p, const LogSoftmax& p_log, std::span<const float> q,
                  const LogSoftmax& q_log) {
  return lane_sum(p.size(), [&](std::size_t i) {
    const double log_p = p_log(p[i]);
    return math::exp(log_p) * (log_p - q_log(q[i]));
  });
}

}  // namespace krafla
