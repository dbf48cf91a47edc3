// A .mlb model: its header and typed views of its arrays, which stay where they are in the mapped file.
// The file format is described in docs/formats/mlb.md. Writing: mlb_writer.h. The header's rules:
// mlb_header.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "formats/mlb_header.h"

namespace krafla {

/// A quantized matrix, row by row: y[r] = Σ_c W[r][c] · x[c]. cols is a multiple of 32; q and d are 64-byte
/// aligned when the file is mapped. q: rows × cols int8 (q8_0) or rows × cols / 2 bytes (q4_0); d: rows ×
/// cols / 32 floats or f16 (d_f16).
struct MatrixView {
  MatrixType type = MatrixType::q8_0;
  std::size_t rows = 0;
  std::size_t cols = 0;
  const std::uint8_t* q = nullptr;
  const void* d = nullptr;
  bool d_f16 = false;

  bool empty() const { return q == nullptr; }
  std::size_t q_bytes() const { return type == MatrixType::q8_0 ? rows * cols : rows * cols / 2; }
  std::size_t d_bytes() const { return rows * cols / 32 * (d_f16 ? 2 : 4); }
};

using FloatView = std::span<const float>;

/// One layer's tensors by the page's names; what the layer does not have is empty. `flags` are the effective
/// MlbLayerFlag bits.
struct MlbLayer {
  std::uint8_t flags = 0;
  FloatView attn_norm;
  MatrixView wq, wk, wv, wo, wg;
  FloatView bq, bk, bv, q_norm, k_norm;
  MatrixView lqkv, lz, lb, la;
  FloatView lconv;  // lin_channels × lin_conv
  FloatView dt_bias, A_log, lnorm;
  MatrixView lout;
  FloatView ffn_norm;
  MatrixView w1, w2, w3;
  FloatView post_attn_norm, post_ffn_norm;
};

/// A parsed model: views into the bytes it was parsed from, which must outlive it.
struct Mlb {
  MlbHeader header;
  std::vector<MlbLayer> layers;
  MatrixView tok_emb;
  FloatView final_norm;
  MatrixView wcls;               // tok_emb when the classifier is shared
  std::uint64_t parameters = 0;  // elements of all tensors
  std::uint64_t trailing = 0;    // bytes after the last array and its padding: allowed, shown by `inspect`
};

/// The kinds of arrays a file has.
enum class MlbKind : std::uint8_t { flags, f32, q8_0, q4_0 };

/// One tensor's place in the file. A vector has rows = 1. d_offset and d_size are 0 unless it is quantized;
/// sizes in bytes.
struct MlbArray {
  const char* tensor = nullptr;  // "wq", "tok_emb" ...
  int layer = -1;                // -1: of no layer
  MlbKind kind = MlbKind::f32;
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t d_offset = 0;
  std::uint64_t d_size = 0;
  FloatView MlbLayer::* vector = nullptr;  // where a layer's view goes
  MatrixView MlbLayer::* matrix = nullptr;

  /// "layers.3.wq" or "tok_emb".
  std::string name() const;
  bool quantized() const { return kind == MlbKind::q8_0 || kind == MlbKind::q4_0; }
  /// The first byte after the tensor, padding not counted.
  std::uint64_t end() const { return quantized() ? d_offset + d_size : offset + size; }
};

/// All arrays in file order for a checked header. `flags`: the stored layer flags, or empty. An array that
/// ends after byte `available`, or whose size overflows, is ML_E_FORMAT: so the list is never longer than a
/// file of that size allows.
std::vector<MlbArray> mlb_layout(const MlbHeader& header, std::span<const std::uint8_t> flags,
                                 std::uint64_t available, std::string_view name);

/// The stored layer flags of a file with a checked header, or empty when it has none. ML_E_FORMAT if the file
/// ends before them.
std::span<const std::uint8_t> mlb_stored_flags(const MlbHeader& header, Bytes file, std::string_view name);

struct MlbOptions {
  bool check_quants =
      true;  // scan every Q8_0 quant for -128; touches the whole file (see q8_spans for the parallel way)
};

/// Parses and checks a whole file. `name` is the file's name for messages. ML_E_FORMAT and ML_E_SHAPE as the
/// page's table says. `file` must be aligned to 4 bytes (a mapping is); ML_E_ARG otherwise.
Mlb parse_mlb(Bytes file, std::string_view name, const MlbOptions& options = {});

/// The quants of a Q8_0 matrix under its name.
struct Q8Span {
  std::string name;
  std::size_t cols = 0;
  std::span<const std::uint8_t> q;
};
/// The quants of all Q8_0 matrices, for a caller that scans them on several threads with find_minus_128.
std::vector<Q8Span> q8_spans(const Mlb& mlb);

/// The index of the first byte that is -128 (0x80), or quants.size() if there is none. Runs at memory speed.
std::size_t find_minus_128(std::span<const std::uint8_t> quants);

/// Throws the error for a -128 at `index` of a span: ML_E_FORMAT naming file, matrix and row.
[[noreturn]] void fail_minus_128(const Q8Span& span, std::size_t index, std::string_view name);

}  // namespace krafla
