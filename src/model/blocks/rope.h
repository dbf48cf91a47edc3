// Rotary position embeddings (docs/arithmetic.md A5): inverse frequencies of a model, sines and cosines of a
// batch's positions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "formats/mlb_header.h"

namespace krafla {

/// The inverse frequencies of a header, [rotated / 2] each.
class RopeFrequencies {
 public:
  explicit RopeFrequencies(const MlbHeader& header);

  std::size_t pairs() const { return scaled_.size(); }
  bool has_local() const { return !local_.empty(); }

  /// cos[pairs] and sin[pairs] of one position, from rope_theta and its scaling, or from rope_local_theta.
  void row(std::uint32_t position, bool local, float* cos, float* sin) const;

 private:
  std::vector<double> scaled_;
  std::vector<double> local_;  // empty without a rope_local_theta
  float attn_factor_;          // 0: none
};

}  // namespace krafla
