// The arithmetic of docs/arithmetic.md as one table of functions per instruction set. Kernels see plain data
// only; they do not allocate, throw or lock. Every table gives the same bits for the same input.
//
// Goals: one algorithm, many instruction sets; tests can hold several tables at once. Non-goals: shapes are
// not checked here (the loader did), and nothing is split over threads (the caller hands out row ranges).
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/matrix.h"

namespace krafla {

enum class KvType : uint8_t { f16, f32, q8_0 };

constexpr int kPage = 64;  ///< positions in a KV page
constexpr size_t kKvBlock =
    32;  ///< dimensions of a head that share a q8_0 scale; the last block may be shorter
constexpr size_t kTileRows = 32;  ///< rows that gemm() packs together, at most: hand out multiples of it

/// nq query rows of one kv head against one page (A6).
struct AttendPage {
  const float* const* q;  ///< [nq] rows of head_dim floats
  const int* first;       ///< [nq] visible keys of the page are first[i] <= j < last[i], at least one
  const int* last;        ///< [nq]
  int nq;
  int head_dim;
  const void* k;       ///< [head_dim][64]; q8_0: int8, then f16 scales [blocks][64]
  const void* v;       ///< [64][head_dim]; q8_0: int8, then f16 scales [64][blocks]
  const void* next_k;  ///< the k of the next call, if that is known, to be fetched meanwhile; else null
  KvType type;
  float scale;
  float softcap;    ///< 0: none
  float* scratch;   ///< attend_scratch(head_dim, nq) floats, 64-byte aligned
  float* m;         ///< [nq] out: the page's maximum
  float* l;         ///< [nq] out: its sum of exponentials
  float* o;         ///< [nq][o_stride] out: its weighted sum of values
  size_t o_stride;  ///< at least head_dim rounded up to 8; the padding is written too
};

/// A page's (m, l, o) of nq queries, to be merged into what each has of earlier pages, (M, L, O). Rows of o
/// and O are o_stride apart.
struct AttendMerge {
  size_t nq, head_dim;
  float* M;  ///< [nq]
  float* L;  ///< [nq]
  float* O;  ///< [nq][o_stride], of which head_dim count
  const float* m;
  const float* l;
  const float* o;
  size_t o_stride;
};

/// Floats of scratch that attend_page needs.
constexpr size_t attend_scratch(size_t head_dim, size_t nq) {
  const size_t padded = (head_dim + 7) / 8 * 8;  // keys, values, scores, q8_0's scales
  return head_dim * kPage + padded * kPage + nq * kPage + (head_dim + kKvBlock - 1) / kKvBlock * kPage;
}

/// Channels of a causal convolution with silu (A7), for consecutive positions. All rows are `stride` floats
/// apart and may be read and written up to a multiple of 8 channels.
struct CausalConv {
  size_t channels, n_taps, count;  ///< count: positions
  const float* taps;               ///< [channels][n_taps], the last tap on the current position
  const float* history;            ///< [n_taps - 1] rows: the inputs before the first position
  const float* x;                  ///< [count] rows
  float* y;                        ///< [count] rows out; not x
  size_t stride;
};

constexpr size_t kDeltaSlice =
    32;  ///< values of a head that delta_rule takes at most: their state stays in the first cache level

/// The gated delta rule (A7) for a slice of one value head, for consecutive positions.
struct DeltaRule {
  size_t count, dk, width;  ///< positions, size of a key head, values of the slice (1 to kDeltaSlice)
  const float* q;           ///< [count] rows of dk, normalized
  const float* k;           ///< [count] rows of dk, normalized
  const float* v;           ///< [count] rows of width
  size_t stride;            ///< between rows of q, k and v
  const float* beta;        ///< [count], gate_stride apart
  const float* g;           ///< [count], gate_stride apart: the decay, exp already taken
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
  /// next, the first of which are fetched meanwhile; null if that is not known.
  void (*gemv)(const Matrix& w, size_t row0, size_t row1, const void* x, float* y, const uint8_t* next);
  /// The same for n activation rows, activation_bytes(cols) apart: y[i * y_stride + r - row0]. scratch:
  /// 64-byte aligned, at least gemm_scratch(cols) bytes, in which a tile of rows is packed; best what stays
  /// in a near cache, for there it may be many tiles. next: as gemv's.
  void (*gemm)(const Matrix& w, size_t row0, size_t row1, const void* x, size_t n, float* y, size_t y_stride,
               void* scratch, size_t scratch_bytes, const uint8_t* next);
  size_t (*gemm_scratch)(size_t cols);
  /// What gemm() cannot exceed: `rounds` times the inner products of a full tile, from the first cache level,
  /// without scales, packing or memory. Returns the multiply-adds done; the caller takes the time.
  size_t (*multiply_add_peak)(WeightType type, size_t rounds);
  /// The row's weights as floats, times scale unless scale is 0.
  void (*dequantize_row)(const Matrix& w, size_t row, float scale, float* out);

  // Weights to blocks of 32 (src/quant). x is finite; d gets the scales as floats, before any rounding to
  // f16.
  void (*quantize_q8)(const float* x, size_t blocks, bool f16, uint8_t* q, float* d);
  void (*quantize_q4_search)(const float* x, const float* w, size_t blocks, uint8_t* q,
                             float* d);  ///< w: weights, null for x * x
  void (*quantize_q4_round)(const float* x, size_t blocks, uint8_t* q, float* d);

  // A4. n is any length; pointers need no alignment; y may be x.
  void (*rms_norm)(const float* x, const float* w, float eps, size_t n, float* y);
  void (*add)(float* x, const float* y, size_t n);  ///< x = x + y
  void (*silu_mul)(float* out, const float* gate, const float* up,
                   size_t n);  ///< out = silu(gate) * up; out may be gate
  void (*gelu_mul)(float* out, const float* gate, const float* up,
                   size_t n);                                  ///< out = gelu(gate) * up; out may be gate
  void (*sigmoid_mul)(float* o, const float* gate, size_t n);  ///< o = o * sigmoid(gate)
  void (*softcap)(float* x, float cap, size_t n);              ///< x = cap * tanh(x / cap)
  void (*rope)(float* x, const float* cos, const float* sin,
               size_t pairs);  ///< A5's rotation of x[0 .. 2*pairs)

  // A6
  void (*to_f16)(const float* x, size_t n, uint16_t* out);
  void (*quantize_kv)(const float* x, size_t n, int8_t* q,
                      uint16_t* d);  ///< blocks of kKvBlock, a scale each; any length
  void (*attend_page)(const AttendPage& args);
  void (*attend_merge)(const AttendMerge& args);
  void (*divide)(float* x, float by, size_t n);  ///< x = x / by

  // A7
  void (*causal_conv)(const CausalConv& args);
  void (*l2_norm)(float* x, float scale, size_t n);  ///< x = (x / |x|) * scale
  void (*delta_rule)(const DeltaRule& args);
};

/// The names this build knows, fastest last, ended by null.
const char* const* kernel_names();

/// The table of one of those names, or null when it is unknown or this CPU does not have it.
const Kernels* find_kernels(const char* name);

/// The table to use: `forced` if not null or empty, else the environment's KRAFLA_ISA, else the fastest this
/// CPU has. Throws ML_E_ISA when the one asked for is unknown or not available.
const Kernels& choose_kernels(const char* forced);

}  // namespace krafla
