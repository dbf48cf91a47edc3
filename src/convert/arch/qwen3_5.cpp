// Qwen3.5 and 3.6 (dense): most layers are linear attention (the gated delta rule), the others attention with
// an output gate, q/k norms and a partial rotation.
#include <numeric>

#include "convert/arch/registry.h"
#include "convert/gguf_source.h"

namespace krafla {
namespace {

constexpr TensorName kNames[] = {
    {"ffn_norm", "layers.{}.post_attention_layernorm.weight", "blk.{}.post_attention_norm.weight"},
    {"lqkv", "layers.{}.linear_attn.in_proj_qkv.weight", "blk.{}.attn_qkv.weight"},
    {"lz", "layers.{}.linear_attn.in_proj_z.weight", "blk.{}.attn_gate.weight"},
    {"lb", "layers.{}.linear_attn.in_proj_b.weight", "blk.{}.ssm_beta.weight"},
    {"la", "layers.{}.linear_attn.in_proj_a.weight", "blk.{}.ssm_alpha.weight"},
    {"lconv", "layers.{}.linear_attn.conv1d.weight", "blk.{}.ssm_conv1d.weight"},
    {"dt_bias", "layers.{}.linear_attn.dt_bias", "blk.{}.ssm_dt.bias"},
    {"A_log", "layers.{}.linear_attn.A_log", "blk.{}.ssm_a"},
    {"lnorm", "layers.{}.linear_attn.norm.weight", "blk.{}.ssm_norm.weight"},
    {"lout", "layers.{}.linear_attn.out_proj.weight", "blk.{}.ssm_out.weight"},
};

constexpr HfDefaults kDefaults{.vocab = 248320,
                               .dim = 4096,
                               .hidden = 12288,
                               .layers = 32,
                               .heads = 16,
                               .kv_heads = 4,
                               .head_dim = 256,
                               .max_seq = 32768,
                               .rotary = 0.25};

/// Every interval-th layer is attention, the others are linear. interval: at least 1.
std::vector<std::uint8_t> linear_except_every(std::uint32_t n_layers, std::uint32_t interval) {
  std::vector<std::uint8_t> flags(n_layers, kLayerLinear);
  for (std::uint32_t i = interval - 1; i < n_layers; i += interval) flags[i] = 0;
  return flags;
}

ModelPlan plan_qwen3_5_hf(const HfCheckpoint& checkpoint, const StorageChoice& storage) {
  const HfConfig& config = checkpoint.config();
  hf_refuse_attention_bias(config);
  ModelPlan plan;
  MlbHeader& h = plan.header;
  h = hf_base_header(checkpoint, kDefaults, storage);
  if (h.act !=
      kActSilu)  // transformers applies it after the convolution of linear layers too, where a .mlb has SiLU
    fail(ML_E_UNSUPPORTED, "{}: hidden_act is \"{}\"; for {} only silu is supported", config.name(),
         *config.text("hidden_act"), config.model_type());
  h.qk_norm = 1;
  h.attn_gate = config.boolean("attn_output_gate").value_or(true);
  h.lin_k_heads = config.count("linear_num_key_heads").value_or(16);
  h.lin_v_heads = config.count("linear_num_value_heads").value_or(32);
  h.lin_k_dim = config.count("linear_key_head_dim").value_or(128);
  h.lin_v_dim = config.count("linear_value_head_dim").value_or(128);
  h.lin_conv = config.count("linear_conv_kernel_dim").value_or(4);
  const auto types = hf_layer_types(config, h.n_layers, kLayerLinear);
  const std::uint32_t interval = config.count("full_attention_interval").value_or(4);
  if (interval == 0)
    fail(ML_E_FORMAT, "{}: full_attention_interval is 0; allowed: 1 and more", config.name());
  plan.flags = types.value_or(linear_except_every(h.n_layers, interval));
  hf_finish(checkpoint, kNames, from_halves_norms_plus_one, plan);
  return plan;
}

/// Of each position in the .mlb's order, the place in the file: `first` places stay, then come value heads of
/// `each`. The file has them tiled (value head p belongs to key head p % K), the .mlb grouped (to key head p
/// / (V / K)).
std::vector<std::size_t> tiled_values(const MlbHeader& h, std::size_t first, std::size_t each) {
  const std::size_t keys = h.lin_k_heads;
  const std::size_t group = h.lin_v_heads / keys;
  std::vector<std::size_t> order(first + h.lin_v_heads * each);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = first; i < order.size(); ++i) {
    const std::size_t head = (i - first) / each;
    order[i] = first + (head % group * keys + head / group) * each + (i - first) % each;
  }
  return order;
}

/// GGUF has Hugging Face's rows, but -exp(A_log), and tiled value heads.
SourceTensor gguf_rows(SourceTensor t, const MlbHeader& h, const MlbTensor& tensor) {
  const std::string_view target = tensor.name;
  t = from_halves(std::move(t), h, tensor);
  if (target == "A_log") t = log_of_negated(std::move(t));
  if (h.lin_v_heads == h.lin_k_heads) return t;
  const std::size_t queries_and_keys = 2 * std::size_t{h.lin_k_heads} * h.lin_k_dim;
  if (target == "lqkv" || target == "lconv")
    return pick_rows(std::move(t), tiled_values(h, queries_and_keys, h.lin_v_dim));
  if (target == "lz") return pick_rows(std::move(t), tiled_values(h, 0, h.lin_v_dim));
  if (target == "lb" || target == "la") return pick_rows(std::move(t), tiled_values(h, 0, 1));
  if (target == "dt_bias" || target == "A_log") return pick_cols(std::move(t), tiled_values(h, 0, 1));
  if (target == "lout") return pick_cols(std::move(t), tiled_values(h, 0, h.lin_v_dim));
  return t;
}

/// Which layers are linear: a list, or all but every interval-th.
std::vector<std::uint8_t> gguf_linear_layers(GgufKeys& keys, std::uint32_t n_layers) {
  const std::uint32_t interval = keys.optional("full_attention_interval").value_or(4);
  if (interval == 0)
    fail(ML_E_FORMAT, "{}: full_attention_interval is 0; allowed: 1 and more", keys.gguf().name);
  const auto listed = keys.per_layer("attention.recurrent_layers", n_layers);
  if (!listed) return linear_except_every(n_layers, interval);
  std::vector<std::uint8_t> flags;
  for (const bool linear : *listed) flags.push_back(linear ? kLayerLinear : 0);
  return flags;
}

ModelPlan plan_qwen3_5_gguf(const Gguf& gguf, const StorageChoice& storage) {
  GgufKeys keys(gguf, "qwen35");
  ModelPlan plan;
  MlbHeader& h = plan.header;
  h = gguf_base_header(keys, storage);
  h.qk_norm = 1;
  h.attn_gate = 1;
  h.rot_dim = keys.required("rope.dimension_count");
  h.lin_k_heads = keys.required("ssm.group_count");
  h.lin_v_heads = keys.required("ssm.time_step_rank");
  h.lin_k_dim = keys.required("ssm.state_size");
  h.lin_conv = keys.required("ssm.conv_kernel");
  const std::uint32_t values = keys.required("ssm.inner_size");
  if (h.lin_v_heads == 0 || values % h.lin_v_heads != 0)
    fail(ML_E_SHAPE,
         "{}: ssm.inner_size is {} and ssm.time_step_rank {}; the first must be a multiple of the second",
         gguf.name, values, h.lin_v_heads);
  h.lin_v_dim = values / h.lin_v_heads;
  plan.flags = gguf_linear_layers(keys, h.n_layers);
  gguf_finish(keys, kNames, gguf_rows, plan);
  return plan;
}

constexpr std::string_view kGguf[] = {"qwen35"};
constexpr std::string_view kHf[] = {"qwen3_5", "qwen3_5_text"};

}  // namespace

const Family kQwen35{.gguf = kGguf, .hf = kHf, .plan_gguf = plan_qwen3_5_gguf, .plan_hf = plan_qwen3_5_hf};

}  // namespace krafla
