#include "quant/quant.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/float16.h"

namespace krafla {
namespace {

constexpr float kF16Max = 65504.0f;

void refuse_not_finite(const float* x, std::size_t cols, std::string_view name, std::size_t row) {
  constexpr std::uint32_t kExponent = 0x7f800000u;
  std::uint32_t found = 0;  // of the bits, so that the loop vectorizes
  for (std::size_t i = 0; i < cols; ++i)
    found |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(x[i]) & kExponent) == kExponent);
  if (found == 0) return;
  const float* bad = std::find_if(x, x + cols, [](float v) { return !std::isfinite(v); });
  fail(ML_E_FORMAT, "{} row {}: weight {} in column {}; allowed: finite weights", name, row, *bad, bad - x);
}

constexpr std::size_t kRowsAtOnce = 4;

/// The mean squares of up to four rows: float64 sums in ascending order, rounded once. Four rows side by
/// side, so that an addition need not wait for the one before.
void mean_squares(const float* x, std::size_t rows, std::size_t cols, float* s2) {
  const float* row[kRowsAtOnce];
  for (std::size_t r = 0; r < kRowsAtOnce; ++r) row[r] = x + std::min(r, rows - 1) * cols;
  double sum[kRowsAtOnce] = {};
  for (std::size_t i = 0; i < cols; ++i)
    for (std::size_t r = 0; r < kRowsAtOnce; ++r)
      sum[r] += static_cast<double>(row[r][i]) * static_cast<double>(row[r][i]);
  for (std::size_t r = 0; r < rows; ++r) s2[r] = static_cast<float>(sum[r] / static_cast<double>(cols));
}

/// The imatrix weights of a row with the mean square s2: imp × sqrt(s² + x²).
void importance_weights(const float* x, float s2, std::span<const float> importance, float* w) {
  for (std::size_t i = 0; i < importance.size(); ++i) w[i] = importance[i] * std::sqrt(s2 + x[i] * x[i]);
}

/// Stores one row's scales; a block whose scale is stored as zero becomes a block of zeros with d = +0.
void store_scales(const QuantRule& rule, const float* scales, std::size_t blocks, std::uint8_t* q,
                  std::uint8_t* d, std::string_view name, std::size_t row) {
  const float limit = rule.d_f16 ? kF16Max : std::numeric_limits<float>::max();
  const std::size_t block_bytes = quant_row_bytes(rule.type, kQuantBlock);
  for (std::size_t b = 0; b < blocks; ++b) {
    if (!(std::fabs(scales[b]) <= limit))
      fail(ML_E_FORMAT, "{} row {}: its weights need the scale {}; allowed: at most {}", name, row, scales[b],
           rule.d_f16 ? "65504 with f16 scales (f32 scales have room)" : "the largest float");
    const std::uint16_t half = rule.d_f16 ? float_to_f16(scales[b]) : std::uint16_t{0};
    const bool zero = rule.d_f16 ? (half & 0x7fffu) == 0 : scales[b] == 0;
    if (zero) {
      std::memset(q + b * block_bytes, rule.type == WeightType::q4_0 ? 0x88 : 0, block_bytes);
      std::memset(d + b * (rule.d_f16 ? 2 : 4), 0, rule.d_f16 ? 2 : 4);
    } else if (rule.d_f16) {
      std::memcpy(d + b * 2, &half, 2);
    } else {
      std::memcpy(d + b * 4, &scales[b], 4);
    }
  }
}

}  // namespace

void quantize_rows(const Kernels& kernels, const QuantRule& rule, const float* x, std::size_t rows,
                   std::size_t cols, std::uint8_t* q, void* d, std::string_view name, std::size_t first_row) {
  if (cols == 0 || cols % kQuantBlock != 0)
    fail(ML_E_SHAPE, "{}: rows of {} weights; allowed: multiples of 32", name, cols);
  if (!rule.importance.empty() && rule.importance.size() != cols)
    fail(ML_E_SHAPE, "{}: an importance of {} channels; allowed: {}", name, rule.importance.size(), cols);
  const std::size_t blocks = cols / kQuantBlock;
  std::vector<float> scales(blocks);
  std::vector<float> weights(rule.importance.size());
  float s2[kRowsAtOnce];
  auto* d_bytes = static_cast<std::uint8_t*>(d);
  for (std::size_t r = 0; r < rows; ++r, x += cols) {
    refuse_not_finite(x, cols, name, first_row + r);
    if (rule.type == WeightType::q8_0) {
      kernels.quantize_q8(x, blocks, rule.d_f16, q, scales.data());
    } else if (rule.q4_rule == Q4Rule::round) {
      kernels.quantize_q4_round(x, blocks, q, scales.data());
    } else {
      if (!weights.empty()) {
        if (r % kRowsAtOnce == 0) mean_squares(x, std::min(kRowsAtOnce, rows - r), cols, s2);
        importance_weights(x, s2[r % kRowsAtOnce], rule.importance, weights.data());
      }
      kernels.quantize_q4_search(x, weights.empty() ? nullptr : weights.data(), blocks, q, scales.data());
    }
    store_scales(rule, scales.data(), blocks, q, d_bytes, name, first_row + r);
    q += quant_row_bytes(rule.type, cols);
    d_bytes += scale_row_bytes(rule.d_f16, cols);
  }
}

void dequantize_rows(const Kernels& kernels, const Matrix& w, float* out) {
  for (std::size_t r = 0; r < w.rows; ++r) kernels.dequantize_row(w, r, 0, out + r * w.cols);
}

std::vector<float> relative_importance(std::span<const double> sums, std::uint64_t tokens) {
  std::vector<double> means(sums.size());
  double total = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    means[i] = sums[i] / static_cast<double>(tokens);
    total += means[i];
  }
  const double mean = total / static_cast<double>(sums.size());
  std::vector<float> result(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i)
    result[i] = static_cast<float>(std::max(means[i] / mean, 0.001));
  return result;
}

}  // namespace krafla
