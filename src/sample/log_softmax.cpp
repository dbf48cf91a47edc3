#include "sample/log_softmax.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/math.h"

namespace krafla {

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

TokenLogprobs token_logprobs(std::span<const float> logits, std::int32_t id, std::size_t top) {
  const LogSoftmax log_p(logits);
  if (!log_p.finite) fail(ML_E_NUMERIC, "a logit is NaN or infinite: the model's weights are broken");
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  top = std::min(top, ids.size());
  const auto logit = [&](std::int32_t i) { return logits[static_cast<std::size_t>(i)]; };
  std::partial_sort(
      ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(top), ids.end(),
      [&](std::int32_t a, std::int32_t b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  TokenLogprobs out{{id, log_p(logit(id))}, {}};
  for (std::size_t i = 0; i < top; ++i) out.top.push_back({ids[i], log_p(logit(ids[i]))});
  return out;
}

}  // namespace krafla
