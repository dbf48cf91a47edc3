// What all model families need of a Hugging Face checkpoint: the settings they share, and the tensors found,
// checked and named. A family's file in arch/ says what is its own.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/hf_checkpoint.h"
#include "convert/plan.h"
#include "convert/rows.h"
#include "convert/tensor_names.h"

namespace krafla {

/// What transformers assumes where config.json says nothing. 0 where there is no such default.
struct HfDefaults {
  std::uint32_t vocab, dim, hidden, layers, heads;
  std::uint32_t kv_heads = 0;  // 0: as many as heads
  std::uint32_t head_dim = 0;  // 0: dim / heads
  std::uint32_t max_seq = 2048;
  bool tied = false;
  double rope_theta = 10000;
  double rotary = 1;        // partial_rotary_factor
  bool local_rope = false;  // sliding layers have a RoPE of their own
  const char* activation_key = "hidden_act";
  const char* activation = "silu";
};

/// Dimensions, norms' epsilon, RoPE and its scaling, activation, tying: the header fields that every family
/// spells alike. Refuses by name what no .mlb holds (biases in the FFN, unknown activations and RoPE types
/// ...).
MlbHeader hf_base_header(const HfCheckpoint& checkpoint, const HfDefaults& defaults,
                         const StorageChoice& storage);

/// Refuses attention_bias: for the families whose o_proj would have a bias too.
void hf_refuse_attention_bias(const HfConfig& config);

/// `layer_types` as flags (sliding_attention: kLayerWindow; linear_attention: kLayerLinear), or nothing.
/// ML_E_UNSUPPORTED for a type whose flag is not in `allowed`, ML_E_FORMAT for a list of the wrong length.
std::optional<std::vector<std::uint8_t>> hf_layer_types(const HfConfig& config, std::uint32_t n_layers,
                                                        std::uint8_t allowed);

/// sliding_window: `fallback` where the key is missing, 0 where it is null.
std::uint32_t hf_window(const HfConfig& config, std::uint32_t fallback);

/// The RoPE base of sliding layers: rope_parameters.sliding_attention.rope_theta, or rope_local_base_freq, or
/// `fallback`. ML_E_UNSUPPORTED if those layers are scaled.
float hf_local_theta(const HfConfig& config, double fallback);

/// What every family's plan ends with. Finds the tensor of every array (find_tensors), under the family's
/// names first
/// (`own`), and has its rows prepared; refuses tensors that nobody uses; notes what was skipped.
void hf_finish(const HfCheckpoint& checkpoint, std::span<const TensorName> own, PrepareRows prepare,
               ModelPlan& plan);

}  // namespace krafla
