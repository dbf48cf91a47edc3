// RoPE scaling from a GGUF.
#include <cmath>

#include "base/math.h"
#include "convert/gguf_source.h"
#include "quant/gguf_dequantize.h"

namespace krafla {
namespace {

constexpr double kTwoPi = 0x1.921fb54442d18p+2;

/// The factor by which llama3's rule divides an inverse frequency.
double llama3_factor(const Llama3Scaling& p, double inverse) {
  const double wavelen = kTwoPi / inverse;
  const double original = p.original;
  if (wavelen < original / p.high) return 1;
  if (wavelen > original / p.low) return p.factor;
  const double s = (original / wavelen - p.low) / (static_cast<double>(p.high) - p.low);
  return 1 / ((1 - s) / p.factor + s);
}

bool verifies(const Llama3Scaling& p, std::span<const float> factors, double theta, std::uint32_t rotated) {
  if (!(p.factor > 0 && p.low > 0 && p.high > p.low && p.original > 0)) return false;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const double inverse = math::pow(theta, -(2.0 * static_cast<double>(i)) / rotated);
    // The file's factors were computed in float32 by someone else; a wrong parameter shows far above this.
    if (!(std::fabs(llama3_factor(p, inverse) / static_cast<double>(factors[i]) - 1) < 1e-4)) return false;
  }
  return true;
}

/// original and high for low = 1, from two pairs between the thresholds: there 1/factor is a line in
/// 1/wavelength. original alone, for high = 4 as in every Llama 3.x, from one such pair, or from where the
/// factors change.
std::optional<Llama3Scaling> solve(std::span<const float> factors, double theta, std::uint32_t rotated,
                                   double most) {
  double u[2] = {}, s[2] = {};  // 1 / wavelength and the blend at the first and the last such pair
  double unscaled = 0;          // the longest wavelength that is left as it was
  int found = 0;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const double f = static_cast<double>(factors[i]);
    const double frequency = math::pow(theta, -(2.0 * static_cast<double>(i)) / rotated) / kTwoPi;
    if (f <= 1.0001) unscaled = 1 / frequency;
    if (!(f > 1.0001 && f < most * 0.9999)) continue;
    const int at = found == 0 ? 0 : 1;
    u[at] = frequency;
    s[at] = (1 / f - 1 / most) / (1 - 1 / most);
    ++found;
  }
  double original = 0, high = 4;
  if (found == 0) {
    original = std::floor(high * unscaled) + 1;
  } else if (found == 1) {
    original = std::round((1 + (high - 1) * s[0]) / u[0]);
  } else {
    const double slope = (s[0] - s[1]) / (u[0] - u[1]);  // orig / (hi - lo)
    const double below = slope * u[0] - s[0];            // lo / (hi - lo)
    if (!(below > 0) || !(slope > 0)) return std::nullopt;
    original = std::round(slope / below);
    high = std::round((1 + below) / below * 1000) / 1000;
  }
  if (!(original >= 1 && original < 4294967295.0)) return std::nullopt;
  return Llama3Scaling{static_cast<float>(most), 1, static_cast<float>(high),
                       static_cast<std::uint32_t>(original)};
}

void yarn(GgufKeys& keys, float factor, MlbHeader& h) {
  h.rope_type = kRopeYarn;
  h.rope_factor = factor;
  h.rope_low_freq_factor = keys.number("rope.scaling.yarn_beta_fast").value_or(32.0f);
  h.rope_high_freq_factor = keys.number("rope.scaling.yarn_beta_slow").value_or(1.0f);
  keys.refuse_unless("rope.scaling.yarn_ext_factor", 1, "only 1 is supported");
  keys.refuse_unless("rope.scaling.yarn_log_multiplier", 0, "not supported");
  const auto original = keys.optional("rope.scaling.original_context_length");
  if (!original)
    fail(ML_E_FORMAT, "{}: yarn needs the key rope.scaling.original_context_length", keys.gguf().name);
  h.rope_orig_max_seq = *original;
  // yarn_attn_factor is the checkpoint's attention_factor, which stands for all of it.
  const double usual = factor > 1 ? 0.1 * math::log(static_cast<double>(factor)) + 1 : 1;
  const auto whole = keys.number("rope.scaling.yarn_attn_factor");
  const double more = static_cast<double>(keys.number("rope.scaling.attn_factor").value_or(1.0f));
  h.rope_attn_factor = static_cast<float>(more * (whole ? static_cast<double>(*whole) : usual));
}

void llama3(const GgufTensor& tensor, const Gguf& gguf, MlbHeader& h) {
  if (h.rope_type != kRopePlain)
    fail(ML_E_UNSUPPORTED, "{}: rope_freqs.weight together with a rope.scaling.type, which is not supported",
         gguf.name);
  const std::uint32_t rotated = h.rot_dim != 0 ? h.rot_dim : h.head_size();
  if (tensor.n_dims != 1 || tensor.dims[0] != rotated / 2)
    fail(ML_E_SHAPE, "{}: rope_freqs.weight has {} × {} elements; needed: {}, one per pair", gguf.name,
         tensor.dims[0], tensor.rows(), rotated / 2);
  std::vector<float> factors(rotated / 2);
  dequantize_row(*tensor.type, tensor.data, factors, tensor.name);
  const auto found = recover_llama3(factors, static_cast<double>(h.rope_theta), rotated);
  if (!found)
    fail(ML_E_UNSUPPORTED, "{}: the factors in rope_freqs.weight are not those of llama3 scaling", gguf.name);
  if (found->factor == 1) return;  // all ones: plain RoPE
  h.rope_type = kRopeLlama3;
  h.rope_factor = found->factor;
  h.rope_low_freq_factor = found->low;
  h.rope_high_freq_factor = found->high;
  h.rope_orig_max_seq = found->original;
}

}  // namespace

std::optional<Llama3Scaling> recover_llama3(std::span<const float> factors, double theta,
                                            std::uint32_t rotated) {
  double most = 1;
  for (const float f : factors) {
    if (!std::isfinite(f) || f < 0.9999f) return std::nullopt;
    most = std::max(most, static_cast<double>(f));
  }
  if (most < 1.0001) return Llama3Scaling{1, 1, 4, 8192};
  const double nearest = std::round(most);
  if (std::fabs(most / nearest - 1) < 1e-5) most = nearest;
  Llama3Scaling usual{static_cast<float>(most), 1, 4, 8192};  // every Llama 3.x has these
  if (verifies(usual, factors, theta, rotated)) return usual;
  for (usual.original = 32; usual.original <= kMlbMaxCount;
       usual.original *= 2)  // few pairs may lie between the thresholds
    if (verifies(usual, factors, theta, rotated)) return usual;
  const auto solved = solve(factors, theta, rotated, most);
  return solved && verifies(*solved, factors, theta, rotated) ? solved : std::nullopt;
}

void gguf_rope_scaling(GgufKeys& keys, MlbHeader& h) {
  const Gguf& gguf = keys.gguf();
  const auto type = keys.text("rope.scaling.type");
  const auto old_linear = keys.number("rope.scale_linear");  // the key before rope.scaling.*
  const float factor = keys.number("rope.scaling.factor").value_or(old_linear.value_or(1.0f));
  keys.boolean("rope.scaling.finetuned");
  keys.optional("rope.scaling.original_context_length");
  if (type == "yarn") {
    yarn(keys, factor, h);
  } else if (type == "linear" || !type) {  // a factor without a type is linear
    if (factor != 0 &&
        (factor != 1 || type)) {  // 1 is linear too where the file says so, as from a checkpoint's folder
      h.rope_type = kRopeLinear;
      h.rope_factor = factor;
    }
  } else if (type && *type != "none") {
    fail(ML_E_UNSUPPORTED,
         "{}: rope.scaling.type is \"{}\"; supported: none, linear, yarn, and llama3 by rope_freqs.weight",
         gguf.name, printable(*type));
  }
  if (const GgufTensor* freqs = gguf.tensor("rope_freqs.weight")) llama3(*freqs, gguf, h);
}

}  // namespace krafla
