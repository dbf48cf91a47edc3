// The quantization rules of .mlb: rows of floats to the bytes a file holds, and back. The inner loops are the
// kernels' (bit-identical on every instruction set); here stand the rules around them: what scale is stored,
// what is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/matrix.h"
#include "kernels/kernels.h"

namespace krafla {

inline constexpr std::size_t kQuantBlock = 32;

/// How Q4_0 levels are found: the best of 13 fits per block, or llama.cpp's rounding (for checkpoints trained
/// for it).
enum class Q4Rule { search, round };

/// What to make of a matrix.
struct QuantRule {
  WeightType type = WeightType::q8_0;
  bool d_f16 = false;  // scales stored as f16
  Q4Rule q4_rule = Q4Rule::search;
  std::span<const float> importance;  // of each input channel, for the search; empty: weights x * x
};

/// Bytes of one row's quants and of its scales.
constexpr std::size_t quant_row_bytes(WeightType type, std::size_t cols) {
  return type == WeightType::q4_0 ? cols / 2 : cols;
}
constexpr std::size_t scale_row_bytes(bool d_f16, std::size_t cols) {
  return cols / kQuantBlock * (d_f16 ? 2 : 4);
}

/// Quantizes `rows` rows of `cols` floats (cols a multiple of 32, else ML_E_SHAPE). q: rows ×
/// quant_row_bytes; d: rows × scale_row_bytes. ML_E_FORMAT, naming `name` and the row counted from
/// `first_row`, for a NaN or infinite weight and for a scale that cannot be stored (above 65504 as f16, or
/// not finite). ML_E_SHAPE if `importance` is neither empty nor `cols` long.
void quantize_rows(const Kernels& kernels, const QuantRule& rule, const float* x, std::size_t rows,
                   std::size_t cols, std::uint8_t* q, void* d, std::string_view name, std::size_t first_row);

/// The weights of a matrix, float(level) × float(d): rows × cols floats.
void dequantize_rows(const Kernels& kernels, const Matrix& w, float* out);

/// The relative importance of channels from their sums of squares: each mean over the mean of all, at least
/// 0.001. Float64 sums in ascending order, rounded once. The sums are finite, not negative and not all zero
/// (mli.h checks that).
std::vector<float> relative_importance(std::span<const double> sums, std::uint64_t tokens);

}  // namespace krafla
