// A quantized matrix of weights: its type, and a view of its bytes in the mapped file. The formats give these
// views, the kernels multiply by them. Plain data: kernel files, compiled for newer instruction sets, may
// include this header, but must not call its member functions (an inline function that is not inlined is a
// weak symbol).
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace krafla {

/// How a matrix is stored: blocks of 32 weights of a row share a scale d, and a weight is level × d. q8_0:
/// levels -127 to 127, a byte each. q4_0: levels -8 to 7, stored as 0 to 15 in 4 bits: byte j of a block has
/// element j in its low half and element j + 16 in its high half. The numbers are those of the .mlb header's
/// field wtype.
enum class WeightType : uint32_t { q8_0 = 1, q4_0 = 2 };

/// "Q8_0" or "Q4_0".
constexpr const char* weight_type_name(WeightType type) { return type == WeightType::q8_0 ? "Q8_0" : "Q4_0"; }

/// A matrix row by row: y[r] = Σ_c W[r][c] · x[c]. cols is a multiple of 32. The default is no matrix.
struct Matrix {
  WeightType type = WeightType::q8_0;
  size_t rows = 0;
  size_t cols = 0;
  const uint8_t* q = nullptr;  ///< levels: rows * cols bytes (q8_0) or half as many (q4_0)
  const void* d = nullptr;     ///< scales: rows * cols / 32 of f32, or of f16 if d_f16
  bool d_f16 = false;

  bool empty() const { return q == nullptr; }
  size_t q_bytes() const { return type == WeightType::q8_0 ? rows * cols : rows * cols / 2; }
  size_t d_bytes() const { return rows * cols / 32 * (d_f16 ? 2 : 4); }
};

}  // namespace krafla
