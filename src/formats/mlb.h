// A .mlb model: its header and typed views of its arrays, which stay where they are in the mapped file.
// The file format is described in docs/formats/mlb.md. Writing: mlb_writer.h. The header's rules:
// mlb_header.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/matrix.h"
#include "formats/mlb_header.h"
#include "formats/mli.h"

namespace krafla {

using FloatView = std::span<const float>;

/// One layer's tensors by the page's names; what the layer does not have is empty. `flags` are the effective
/// MlbLayerFlag bits.
struct MlbLayer {
  std::uint8_t flags = 0;
  FloatView attn_norm;
  Matrix wq, wk, wv, wo, wg;
  FloatView bq, bk, bv, q_norm, k_norm;
  Matrix lqkv, lz, lb, la;
  FloatView lconv;  // lin_channels × lin_conv
  FloatView dt_bias, A_log, lnorm;
  Matrix lout;
  FloatView ffn_norm;
  Matrix w1, w2, w3;
  FloatView post_attn_norm, post_ffn_norm;
};

/// A parsed model: views into the bytes it was parsed from, which must outlive it.
struct Mlb {
  MlbHeader header;
  std::vector<MlbLayer> layers;
  Matrix tok_emb;
  FloatView final_norm;
  Matrix wcls;                   // tok_emb when the classifier is shared
  std::uint64_t parameters = 0;  // elements of all tensors
  std::uint64_t trailing = 0;    // bytes after the last array and its padding: allowed, shown by `inspect`
};

/// The kinds of arrays a file has: the layers' flag bytes, float32, quantized matrices.
enum class MlbKind : std::uint8_t { flags, f32, quantized };

/// A size that follows from the header.
using MlbSize = std::uint64_t (*)(const MlbHeader&);

/// A tensor of the format: all that the engine and the converter need to know of "wq".
struct MlbTensor {
  std::string_view name;
  MlbKind kind;
  /// Where its view goes: into the model, or into a layer for a tensor that layers have.
  std::variant<std::monostate, FloatView Mlb::*, Matrix Mlb::*, FloatView MlbLayer::*, Matrix MlbLayer::*>
      view;
  MlbSize rows, cols;  // a vector has one row
  bool (*stored)(const MlbHeader& header,
                 std::uint8_t flags);  // by such a model, or a layer with these flags
  MlbClass q8_class;                   // of a matrix: its bit of q8_mask
  std::optional<MliSlot> slot;  // of a layer's matrix: where an importance matrix has its input's channels
  bool rotated;                 // RoPE rotates its rows (a vector's elements), which lie in interleaved pairs

  bool in_layer() const { return view.index() >= 3; }
};

/// All tensors in file order. Those between the first and the last of layers are repeated for each layer.
std::span<const MlbTensor> mlb_tensors();
/// The tensor of a name, or nullptr.
const MlbTensor* find_mlb_tensor(std::string_view name);

/// One tensor's place in the file. Sizes are in bytes; d_offset and d_size are 0 unless it is quantized.
struct MlbArray {
  const MlbTensor* tensor = nullptr;
  int layer = -1;  // -1: of no layer
  MlbKind kind = MlbKind::f32;
  WeightType type = WeightType::q8_0;  // of a quantized one
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t d_offset = 0;
  std::uint64_t d_size = 0;

  /// "layers.3.wq" or "tok_emb".
  std::string name() const;
  bool quantized() const { return kind == MlbKind::quantized; }
  /// "u8", "F32", "Q8_0" or "Q4_0".
  const char* type_name() const;
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
