// All algorithms on the instruction set whose primitives were included before. Included inside the target's
// anonymous namespace, in this order: each file uses those above it.
/// All lanes x, for F and W.
template <class V>
inline V set(float x) {
  if constexpr (sizeof(V) == sizeof(W))
    return set16(x);
  else
    return set1(x);
}

/// What is read next and is fetched meanwhile, a piece now and then between other work: more than memory
/// gives at a time would fill the queue of outstanding lines, and the work would wait for it. Each line is
/// asked for once, for looking for it again takes a place there, too.
struct Ahead {
  const uint8_t* at;  // the next line to ask for
  const uint8_t* to;  // how far it should be by now
  size_t piece;       // bytes

  /// `bytes` bytes in so many pieces of whole bytes, so that up to a byte a piece more is fetched.
  Ahead(const uint8_t* from, size_t bytes, size_t pieces)
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

/// The instruction set's one export.
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
      .delta_rule = delta_rule,
  };
}
