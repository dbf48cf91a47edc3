// The arithmetic of docs/arithmetic.md as one table of functions per instruction set. Kernels see plain data
// only; they do not allocate, throw or lock. Every table gives the same bits for the same input.
//
// Goals: one algorithm, many instruction sets; tests can hold several tables at once. Non-goals: checking
// shapes (the loader does) and threads (the caller splits the rows).
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/matrix.h"
#include "base/round_up.h"

namespace krafla {

enum class KvType : uint8_t { f16, f32, q8_0 };

constexpr int kPage = 64;  ///< positions in a KV page
/// Dimensions of a head that share a q8_0 scale; the last block may be shorter.
constexpr size_t kKvBlock = 32;
/// The most rows that gemm() packs together. Ranges of rows should be multiples of it.
constexpr size_t kTileRows = 32;

/// nq query rows of one kv head against one page (A6).
struct AttendPage {
  const float* const* q;  ///< [nq] rows of head_dim floats
  const int* first;       ///< [nq] visible keys of the page are first[i] <= j < last[i], at least one
  const int* last;        ///< [nq]
  int nq;
  int head_dim;
  const void* k;       ///< [head_dim][64]; q8_0: int8, then f16 scales [blocks][64]
  const void* v;       ///< [64][head_dim]; q8_0: int8, then f16 scales [64][blocks]
  const void* next_k;  ///< the next call's k, which is prefetched; null if it is not known
  KvType type;
  float scale;
  float softcap;    ///< 0: none
  float* scratch;   ///< attend_scratch(head_dim, nq) floats, 64-byte aligned
  float* m;         ///< [nq] out: the page's maximum
  float* l;         ///< [nq] out: its sum of exponentials
  float* o;         ///< [nq][o_stride] out: its weighted sum of values
  size_t o_stride;  ///< at least head_dim rounded up to 8; the padding is written too
};

/// Merges a page's results (m, l, o) of nq queries into those of the pages before it, (M, L, O). Rows of o
/// and O are o_stride apart.
struct AttendMerge {
  size_t nq, head_dim;
  float* M;  ///< [nq]
  float* L;  ///< [nq]
  float* O;  ///< [nq][o_stride], of which head_dim are used
  const float* m;
  const float* l;
  const float* o;
  size_t o_stride;
};

/// Floats of scratch memory that attend_page needs.
constexpr size_t attend_scratch(size_t head_dim, size_t nq) {
  const size_t padded = round_up<size_t>(head_dim, 8);  // keys, values, scores, q8_0's scales
  return head_dim * kPage + padded * kPage + nq * kPage + (head_dim + kKvBlock - 1) / kKvBlock * kPage;
}

/// A causal convolution with silu (A7) of some channels, for consecutive positions. All rows are `stride`
/// floats apart; they are read and written up to the next multiple of 8 channels.
struct CausalConv {
  size_t channels, n_taps, count;  ///< count: positions
  const float* taps;               ///< [channels][n_taps], the last tap on the current position
  const float* history;            ///< [n_taps - 1] rows: the inputs before the first position
  const float* x;                  ///< [count] rows
  float* y;                        ///< [count] rows out; not x
  size_t stride;
};

/// The gates of the delta rule (A7) of `heads` value heads at one position, in place.
struct DeltaGates {
  size_t heads;
  float* beta;           ///< [heads] b becomes sigmoid(b)
  float* decay;          ///< [heads] a becomes exp(-exp(A_log) * softplus(a + dt_bias))
  const float* A_log;    ///< [heads]
  const float* dt_bias;  ///< [heads]
};

/// The most values of a head that delta_rule takes at a time: their state stays in the first cache level.
constexpr size_t kDeltaSlice = 32;

/// The gated delta rule (A7) for a slice of one value head, for consecutive positions.
struct DeltaRule {
  size_t count, dk, width;  ///< positions, size of a key head, values of the slice (1 to kDeltaSlice)
  const float* q;           ///< [count] rows of dk, normalized
  const float* k;           ///< [count] rows of dk, normalized
  const float* v;           ///< [count] rows of width
  size_t stride;            ///< between rows of q, k and v
  const float* beta;        ///< [count], gate_stride apart
  const float* g;           ///< [count], gate_stride apart: delta_gates' decay
  size_t gate_stride;
  float* state;  ///< [dk][width rounded up to 8], read and written
  float* o;      ///< [count] rows of width, o_stride apart, out
  size_t o_stride;
};

struct Kernels {
  const char* name;

  // A3. A quantized activation row is opaque: activation_bytes(cols) bytes (a multiple of 64), 64-byte
  // aligned.
  size_t (*activation_bytes)(size_t cols);
  void (*quantize_activation)(const float* x, size_t cols, void* out);
  /// y[r - row0] for r in [row0, row1), for one activation row. next: the weights that the thread multiplies
  /// by next, whose first bytes are prefetched; null if they are not known.
  void (*gemv)(const Matrix& w, size_t row0, size_t row1, const void* x, float* y, const uint8_t* next);
  /// The same for n activation rows, activation_bytes(cols) apart: y[i * y_stride + r - row0]. scratch:
  /// memory for packed tiles, 64-byte aligned and at least gemm_scratch(cols) bytes, best the l2_budget().
  /// next: as gemv's.
  void (*gemm)(const Matrix& w, size_t row0, size_t row1, const void* x, size_t n, float* y, size_t y_stride,
               void* scratch, size_t scratch_bytes, const uint8_t* next);
  size_t (*gemm_scratch)(size_t cols);
  /// An upper bound of gemm()'s speed: `rounds` times the inner products of a full tile in the first cache
  /// level, without scales, packing or memory. Returns the multiply-adds done; the caller takes the time.
  size_t (*multiply_add_peak)(WeightType type, size_t rounds);
  /// The row's weights as floats, times scale unless scale is 0.
  void (*dequantize_row)(const Matrix& w, size_t row, float scale, float* out);

  // Weights to blocks of 32 (src/quant). x is finite. d: the scales as floats, before they are rounded to
  // f16.
  void (*quantize_q8)(const float* x, size_t blocks, bool f16, uint8_t* q, float* d);
  /// w: the importance of each element's error; null for x * x.
  void (*quantize_q4_search)(const float* x, const float* w, size_t blocks, uint8_t* q, float* d);
  void (*quantize_q4_round)(const float* x, size_t blocks, uint8_t* q, float* d);

  // A4. n is any length; pointers need no alignment; y may be x.
  void (*rms_norm)(const float* x, const float* w, float eps, size_t n, float* y);
  void (*add)(float* x, const float* y, size_t n);  ///< x = x + y
  /// out = silu(gate) * up, or gelu(gate) * up; out may be gate.
  void (*silu_mul)(float* out, const float* gate, const float* up, size_t n);
  void (*gelu_mul)(float* out, const float* gate, const float* up, size_t n);
  void (*sigmoid_mul)(float* o, const float* gate, size_t n);  ///< o = o * sigmoid(gate)
  void (*softcap)(float* x, float cap, size_t n);              ///< x = cap * tanh(x / cap)
  /// A5's rotation of x[0 .. 2*pairs).
  void (*rope)(float* x, const float* cos, const float* sin, size_t pairs);

  // A6
  void (*to_f16)(const float* x, size_t n, uint16_t* out);
  /// Blocks of kKvBlock with a scale each; any length.
  void (*quantize_kv)(const float* x, size_t n, int8_t* q, uint16_t* d);
  void (*attend_page)(const AttendPage& args);
  void (*attend_merge)(const AttendMerge& args);
  void (*divide)(float* x, float by, size_t n);  ///< x = x / by

  // A7
  void (*causal_conv)(const CausalConv& args);
  void (*l2_norm)(float* x, float scale, size_t n);  ///< x = (x / |x|) * scale
  void (*delta_gates)(const DeltaGates& args);
  void (*delta_rule)(const DeltaRule& args);
};

/// The names this build knows, fastest last, ended by null.
const char* const* kernel_names();

/// The table of a name; null if the name is unknown or this CPU does not have the instruction set.
const Kernels* find_kernels(const char* name);

/// The table to use: `forced` unless null or empty, else the environment variable KRAFLA_ISA's, else the
/// fastest of this CPU. ML_E_ISA if the one asked for is unknown or this CPU does not have it.
const Kernels& choose_kernels(const char* forced);

}  // namespace krafla
