#include "model/blocks/rope.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"

namespace krafla {
namespace {

constexpr double kTwoPi = 0x1.921fb54442d18p+2;

double inverse_frequency(double theta, std::size_t i, double rotated) {
  return math::pow(theta, -(2.0 * static_cast<double>(i) / rotated));
}

double llama3(double inv, const MlbHeader& h) {
  const double factor = h.rope_factor, lo = h.rope_low_freq_factor, hi = h.rope_high_freq_factor,
               orig = h.rope_orig_max_seq;
  const double wavelen = kTwoPi / inv;
  if (wavelen < orig / hi) return inv;
  if (wavelen > orig / lo) return inv / factor;
  const double s = (orig / wavelen - lo) / (hi - lo);
  return ((1 - s) * inv) / factor + s * inv;
}

/// The dimension at which a wavelength fits r rotations into the original context.
double yarn_dimension(double r, const MlbHeader& h) {
  const double rotated = h.rotated(), orig = h.rope_orig_max_seq, theta = h.rope_theta;
  return (rotated * math::log(orig / (kTwoPi * r))) / (2 * math::log(theta));
}

double yarn(double inv, std::size_t i, const MlbHeader& h) {
  const double lo = std::max(std::floor(yarn_dimension(h.rope_low_freq_factor, h)), 0.0);
  double hi =
      std::min(std::ceil(yarn_dimension(h.rope_high_freq_factor, h)), static_cast<double>(h.rotated()) - 1);
  if (lo == hi) hi = lo + 0.001;
  const double ramp = std::clamp((static_cast<double>(i) - lo) / (hi - lo), 0.0, 1.0);
  return (inv / h.rope_factor) * ramp + inv * (1 - ramp);
}

}  // namespace

RopeFrequencies::RopeFrequencies(const MlbHeader& header)
    : attn_factor_(header.rope_type == kRopeYarn ? header.rope_attn_factor : 0) {
  const double rotated = header.rotated();
  const std::size_t pairs = header.rotated() / 2;
  for (std::size_t i = 0; i < pairs; ++i) {
    const double inv = inverse_frequency(header.rope_theta, i, rotated);
    switch (header.rope_type) {
      case kRopeLlama3: scaled_.push_back(llama3(inv, header)); break;
      case kRopeLinear: scaled_.push_back(inv / header.rope_factor); break;
      case kRopeYarn: scaled_.push_back(yarn(inv, i, header)); break;
      default: scaled_.push_back(inv);
    }
  }
  if (header.rope_local_theta > 0)
    for (std::size_t i = 0; i < pairs; ++i)
      local_.push_back(inverse_frequency(header.rope_local_theta, i, rotated));
}

void RopeFrequencies::row(std::uint32_t position, bool local, float* cos, float* sin) const {
  const std::vector<double>& frequencies = local ? local_ : scaled_;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const math::SinCos angle = math::sincos(static_cast<double>(position) * frequencies[i]);
    cos[i] = static_cast<float>(angle.cos);
    sin[i] = static_cast<float>(angle.sin);
    if (!local && attn_factor_ != 0) {
      cos[i] = cos[i] * attn_factor_;
      sin[i] = sin[i] * attn_factor_;
    }
  }
}

}  // namespace krafla
