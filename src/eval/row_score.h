// How far one row of logits is from another.
#pragma once

#include <span>

#include "sample/log_softmax.h"

namespace krafla {

/// KL(P ‖ Q) = Σ p (log p - log q) of two rows of one length: an A2 sum in float64 (docs/arithmetic.md).
double divergence(std::span<const float> p, const LogSoftmax& p_log, std::span<const float> q,
                  const LogSoftmax& q_log);

}  // namespace krafla
