// The 256-byte header of a .mlb model: its fields, their rules and its canonical form.
// Goal: one table of fields and one list of rules for reader, writer and `krafla inspect`. Non-goal: reading
// arrays (mlb.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/matrix.h"

namespace krafla {

inline constexpr std::size_t kMlbHeaderBytes = 256;
inline constexpr std::size_t kMlbAlign = 64;
inline constexpr std::uint32_t kMlbMaxDim =
    65536;  // dim, n_layers, n_heads, n_kv_heads, hidden_dim, q_dim, lin_*
inline constexpr std::uint32_t kMlbMaxCount = 1u << 24;  // vocab, max_seq, sliding_window

/// Values of the field rope_type.
enum MlbRopeType : std::uint32_t { kRopePlain = 0, kRopeLlama3 = 1, kRopeLinear = 2, kRopeYarn = 3 };
/// Values of the field act.
enum MlbActivation : std::uint32_t { kActSilu = 0, kActGelu = 1 };
/// Bits of a layer's flag byte.
enum MlbLayerFlag : std::uint8_t {
  kLayerWindow = 1,
  kLayerLocalRope = 2,
  kLayerNoRope = 4,
  kLayerLinear = 8
};
/// Bits of q8_mask, one per class of matrices. Which matrices a class has: mlb_tensors() in mlb.h.
enum MlbClass : std::uint32_t {
  kClassNone = 0,  // a matrix of no class is always Q8_0
  kClassEmb = 1,
  kClassCls = 2,
  kClassQk = 4,
  kClassV = 8,
  kClassO = 16,
  kClassUp = 32,
  kClassDown = 64
};

/// The fields from offset 8 on, by the page's names and in its order; each is 4 bytes, so this is the file's
/// own layout.
struct MlbHeader {
  std::uint32_t dim = 0;
  std::uint32_t n_layers = 0;
  std::uint32_t n_heads = 0;
  std::uint32_t n_kv_heads = 0;
  std::uint32_t hidden_dim = 0;
  std::uint32_t vocab = 0;
  std::uint32_t max_seq = 0;
  float rope_theta = 0;
  float norm_eps = 0;
  std::uint32_t wtype = 0;
  std::uint32_t shared_classifier = 0;
  std::uint32_t rope_type = 0;
  float rope_factor = 0;
  float rope_low_freq_factor = 0;   // llama3; yarn: beta_fast
  float rope_high_freq_factor = 0;  // llama3; yarn: beta_slow
  std::uint32_t rope_orig_max_seq = 0;
  std::uint32_t q8_mask = 0;
  std::uint32_t qkv_bias = 0;
  std::uint32_t head_dim = 0;  // as stored; head_size() is the value meant
  std::uint32_t qk_norm = 0;
  float rope_attn_factor = 0;
  std::uint32_t sliding_window = 0;
  std::uint32_t layer_flags = 0;
  float rope_local_theta = 0;
  std::uint32_t act = 0;
  std::uint32_t post_norms = 0;
  float embed_scale = 0;
  float attn_scale = 0;
  std::uint32_t scale_f16 = 0;
  float attn_softcap = 0;
  float final_softcap = 0;
  std::uint32_t rot_dim = 0;  // as stored; rotated() is the value meant
  std::uint32_t attn_gate = 0;
  std::uint32_t lin_k_heads = 0;
  std::uint32_t lin_v_heads = 0;
  std::uint32_t lin_k_dim = 0;
  std::uint32_t lin_v_dim = 0;
  std::uint32_t lin_conv = 0;

  /// Size of a head: head_dim, or dim / n_heads when that is 0.
  std::uint32_t head_size() const { return head_dim != 0 ? head_dim : dim / n_heads; }
  std::uint64_t q_dim() const { return std::uint64_t{head_size()} * n_heads; }
  std::uint64_t kv_dim() const { return std::uint64_t{head_size()} * n_kv_heads; }
  /// Dimensions of a head that RoPE rotates.
  std::uint32_t rotated() const { return rot_dim != 0 ? rot_dim : head_size(); }
  /// V·dv, the values of all heads of a linear-attention layer.
  std::uint64_t lin_values() const { return std::uint64_t{lin_v_heads} * lin_v_dim; }
  /// 2·K·dk + V·dv, the channels of its convolution.
  std::uint64_t lin_channels() const { return 2 * (std::uint64_t{lin_k_heads} * lin_k_dim) + lin_values(); }
  bool has_linear() const { return lin_k_heads != 0; }
  /// The field wtype.
  WeightType weight_type() const { return static_cast<WeightType>(wtype); }
  /// How a matrix of this class is stored. An embedding that is the classifier too belongs to both classes.
  WeightType weight_type(MlbClass c) const {
    const std::uint32_t bits = c == kClassEmb && shared_classifier != 0 ? kClassEmb | kClassCls : c;
    return c == kClassNone || (q8_mask & bits) != 0 ? WeightType::q8_0 : weight_type();
  }

  bool operator==(const MlbHeader&) const = default;
};
static_assert(sizeof(MlbHeader) == 152 && std::is_trivially_copyable_v<MlbHeader>);

/// One row of the page's table. `offset` is in the file.
struct MlbField {
  const char* name;
  std::uint32_t offset;
  bool is_float;
  const char* meaning;
};
/// All fields from `dim` on, in file order.
std::span<const MlbField> mlb_fields();
/// The field's value as text, a float in the fewest digits that give it back.
std::string mlb_field_text(const MlbHeader& header, const MlbField& field);

/// The header of a file. Checks size, magic, version, every field and the reserved zeros: ML_E_FORMAT or
/// ML_E_SHAPE, naming `name`, the field, the value found and the values allowed.
MlbHeader parse_mlb_header(Bytes file, std::string_view name);

/// The rules of single fields and their combinations (see the page and its table of statuses): ML_E_FORMAT,
/// then ML_E_SHAPE.
void check_mlb_header(const MlbHeader& header, std::string_view name);

/// The rules of layer flags and of the lin_* fields. `flags`: one byte per layer as stored, or empty when the
/// file has none.
void check_mlb_layers(const MlbHeader& header, std::span<const std::uint8_t> flags, std::string_view name);

/// The flags that hold: the stored ones, or for a file without them the window on every layer if there is a
/// window.
std::vector<std::uint8_t> effective_flags(const MlbHeader& header, std::span<const std::uint8_t> stored);

/// A header and the flags to write with it (empty: none are written).
struct MlbCanonical {
  MlbHeader header;
  std::vector<std::uint8_t> flags;
};
/// The same model with zero wherever zero means the same, so that equal models have equal bytes. `flags` is
/// one byte per layer, or empty; if header.layer_flags is 0 and all are 0, a sliding window applies to every
/// layer. Checks its input.
MlbCanonical canonical_mlb(const MlbHeader& header, std::span<const std::uint8_t> flags,
                           std::string_view name);

}  // namespace krafla
