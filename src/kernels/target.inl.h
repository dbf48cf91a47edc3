// All algorithms, on the primitives of an instruction set. Included after these, inside the target's
// namespace.
/// All lanes x, for F and W.
template <class V>
inline V set(float x) {
  if constexpr (sizeof(V) == sizeof(W))
    return set16(x);
  else
    return set1(x);
}

/// Prefetches the bytes that are read next, a piece at a time between other work. All at once they would fill
/// the core's queue of outstanding cache lines, and the work itself would wait for a place in it. A repeated
/// prefetch takes a place too, so each line is requested once.
struct Prefetcher {
  const uint8_t* at;  // the next line to request
  const uint8_t* to;  // the end of the current piece
  size_t piece;       // bytes, rounded up: the last piece may end after `bytes`

  /// `bytes` bytes from `from` on, in as many pieces as fetch() will be called.
  Prefetcher(const uint8_t* from, size_t bytes, size_t pieces)
      : at(from), to(from), piece(pieces == 0 ? 0 : (bytes + pieces - 1) / pieces) {}

  void fetch() {
    for (to += piece; at < to; at += 64) __builtin_prefetch(at, 0, 2);
  }
};

// clang-format off
#include "base/float_math.inl.h"
#include "kernels/elementwise.inl.h"
#include "kernels/attention.inl.h"
#include "kernels/gated_delta.inl.h"
#include "kernels/matmul.inl.h"
#include "kernels/quantize.inl.h"
// clang-format on

/// The table that the target exports.
constexpr Kernels table(const char* name) {
  return {
      .name = name,
      .activation_bytes = activation_bytes,
      .quantize_activation = quantize_activation,
      .gemv = gemv,
      .gemm = gemm,
      .gemm_scratch = gemm_scratch,
      .multiply_add_peak = multiply_add_peak,
      .dequantize_row = dequantize_row,
      .quantize_q8 = quantize_q8,
      .quantize_q4_search = quantize_q4_search,
      .quantize_q4_round = quantize_q4_round,
      .rms_norm = rms_norm,
      .add = add,
      .silu_mul = silu_mul,
      .gelu_mul = gelu_mul,
      .sigmoid_mul = sigmoid_mul,
      .softcap = softcap,
      .rope = rope,
      .to_f16 = to_f16,
      .quantize_kv = quantize_kv,
      .attend_page = attend_page,
      .attend_merge = attend_merge,
      .divide = divide,
      .causal_conv = causal_conv,
      .l2_norm = l2_norm,
      .delta_gates = delta_gates,
      .delta_rule = delta_rule,
  };
}
