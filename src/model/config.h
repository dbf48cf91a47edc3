// What the forward pass knows of a model: the header with every stored zero resolved, and what each layer is.
// A feature of the header is read here, once. RoPE's frequencies are blocks/rope.h's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "formats/mlb.h"

namespace krafla {

/// Which positions a layer's queries and keys are rotated by.
enum class Rope : std::uint8_t {
  none,    // not at all
  global,  // rope_theta and its scaling
  local,   // rope_local_theta
};

struct LayerSpec {
  bool linear = false;     // linear attention (the gated delta rule) in place of attention
  std::size_t window = 0;  // a query sees the last `window` positions, its own included; 0: all
  Rope rope = Rope::global;

  bool operator==(const LayerSpec&) const = default;
};

/// The shape of linear-attention layers; all 0 without them.
struct LinearSpec {
  std::size_t k_heads = 0, v_heads = 0;
  std::size_t k_dim = 0, v_dim = 0;  // of a head
  std::size_t taps = 0;              // of the causal convolution

  std::size_t values() const { return v_heads * v_dim; }                   ///< of all heads
  std::size_t channels() const { return 2 * k_heads * k_dim + values(); }  ///< of the convolution

  bool operator==(const LinearSpec&) const = default;
};

struct ModelConfig {
  ModelConfig() = default;
  explicit ModelConfig(const Mlb& mlb);

  std::size_t dim = 0, hidden_dim = 0, vocab = 0, max_seq = 0;
  std::size_t heads = 0, kv_heads = 0, head_dim = 0;
  float norm_eps = 0;
  float embed_scale = 0;    // 0: embeddings are not scaled
  float attn_scale = 0;     // of a score
  float attn_softcap = 0;   // 0: none
  float final_softcap = 0;  // 0: none
  MlbActivation activation = kActSilu;
  LinearSpec linear;
  std::vector<LayerSpec> layers;

  std::size_t q_dim() const { return heads * head_dim; }
  std::size_t kv_dim() const { return kv_heads * head_dim; }
  /// Query heads that share a key and value head.
  std::size_t group() const { return heads / kv_heads; }
  /// The longest row that is quantized: the input of some matrix.
  std::size_t widest_input() const;

  bool operator==(const ModelConfig&) const = default;
};

}  // namespace krafla
