// Gemma 2 and Gemma 3 (text): scaled embeddings, norms before and after attention and FFN, GELU, a pattern of
// windowed layers. Gemma 2 caps scores and logits; Gemma 3 has q/k norms and a RoPE base of its own on
// windowed layers.
#include <cmath>

#include "convert/arch/registry.h"
#include "convert/gguf_source.h"

namespace krafla {
namespace {

constexpr TensorName kNames[] = {
    {"ffn_norm", "layers.{}.pre_feedforward_layernorm.weight", "blk.{}.ffn_norm.weight"},
    {"post_attn_norm", "layers.{}.post_attention_layernorm.weight", "blk.{}.post_attention_norm.weight"},
    {"post_ffn_norm", "layers.{}.post_feedforward_layernorm.weight", "blk.{}.post_ffw_norm.weight"},
};

constexpr double kLocalTheta = 10000;        // Gemma 3's windowed layers
constexpr std::uint32_t kGemma3Pattern = 6;  // of so many layers the last is full

/// What all Gemmas of these generations share. scalar: query_pre_attn_scalar.
void gemma_fields(MlbHeader& h, double scalar) {
  h.post_norms = 1;
  h.embed_scale = static_cast<float>(std::sqrt(static_cast<double>(h.dim)));
  h.attn_scale = static_cast<float>(1 / std::sqrt(scalar));
}

/// Of every `pattern` layers the last is full, the others have `flag`. pattern: at least 1.
std::vector<std::uint8_t> windowed_except_every(std::uint32_t n_layers, std::uint32_t pattern,
                                                std::uint8_t flag) {
  std::vector<std::uint8_t> flags(n_layers, flag);
  for (std::uint32_t i = pattern - 1; i < n_layers; i += pattern) flags[i] = 0;
  return flags;
}

std::vector<std::uint8_t> gemma2_flags(std::uint32_t n_layers) {
  return windowed_except_every(n_layers, 2, kLayerWindow);
}
std::vector<std::uint8_t> gemma3_flags(std::uint32_t n_layers, std::uint32_t pattern) {
  return windowed_except_every(n_layers, pattern, kLayerWindow | kLayerLocalRope);
}

// Gemma's hidden_act is not used.
constexpr const char* kActivationKey = "hidden_activation";
constexpr const char* kActivation = "gelu_pytorch_tanh";

constexpr HfDefaults kGemma2Defaults{.vocab = 256000,
                                     .dim = 2304,
                                     .hidden = 9216,
                                     .layers = 26,
                                     .heads = 8,
                                     .kv_heads = 4,
                                     .head_dim = 256,
                                     .max_seq = 8192,
                                     .tied = true,
                                     .activation_key = kActivationKey,
                                     .activation = kActivation};
constexpr HfDefaults kGemma3Defaults{.vocab = 262208,
                                     .dim = 2304,
                                     .hidden = 9216,
                                     .layers = 26,
                                     .heads = 8,
                                     .kv_heads = 4,
                                     .head_dim = 256,
                                     .max_seq = 131072,
                                     .tied = true,
                                     .rope_theta = 1e6,
                                     .local_rope = true,
                                     .activation_key = kActivationKey,
                                     .activation = kActivation};

/// A soft cap; null, and 0, are none.
float cap(const HfConfig& config, const char* key, double fallback) {
  return static_cast<float>(config.has(key) ? config.number(key).value_or(0) : fallback);
}

double query_scalar(const HfConfig& config) {
  const double scalar = config.number("query_pre_attn_scalar").value_or(256);
  if (!(scalar > 0))
    fail(ML_E_FORMAT, "{}: query_pre_attn_scalar is {}; allowed: above 0", config.name(), scalar);
  return scalar;
}

ModelPlan plan_gemma2_hf(const HfCheckpoint& checkpoint, const StorageChoice& storage) {
  const HfConfig& config = checkpoint.config();
  hf_refuse_attention_bias(config);
  ModelPlan plan;
  MlbHeader& h = plan.header;
  h = hf_base_header(checkpoint, kGemma2Defaults, storage);
  gemma_fields(h, query_scalar(config));
  h.attn_softcap = cap(config, "attn_logit_softcapping", 50);
  h.final_softcap = cap(config, "final_logit_softcapping", 30);
  h.sliding_window = hf_window(config, 4096);
  const auto types = hf_layer_types(config, h.n_layers, kLayerWindow);
  if (h.sliding_window != 0) plan.flags = types.value_or(gemma2_flags(h.n_layers));
  hf_finish(checkpoint, kNames, from_halves_norms_plus_one, plan);
  return plan;
}

/// sliding_window_pattern, in either spelling.
std::uint32_t pattern_of(const HfConfig& config) {
  const auto given = config.count("sliding_window_pattern");
  const std::uint32_t pattern =
      given ? *given : config.count("_sliding_window_pattern").value_or(kGemma3Pattern);
  if (pattern == 0) fail(ML_E_FORMAT, "{}: sliding_window_pattern is 0; allowed: 1 and more", config.name());
  return pattern;
}

ModelPlan plan_gemma3_hf(const HfCheckpoint& checkpoint, const StorageChoice& storage) {
  const HfConfig& config = checkpoint.config();
  hf_refuse_attention_bias(config);
  ModelPlan plan;
  plan.q4_rule = Q4Rule::round;  // its checkpoints trained for Q4_0 expect it
  MlbHeader& h = plan.header;
  h = hf_base_header(checkpoint, kGemma3Defaults, storage);
  gemma_fields(h, query_scalar(config));
  h.qk_norm = 1;
  h.final_softcap = cap(config, "final_logit_softcapping", 0);  // attn_logit_softcapping is not used
  h.rope_local_theta = hf_local_theta(config, kLocalTheta);
  h.sliding_window = hf_window(config, 4096);
  plan.flags =
      hf_layer_types(config, h.n_layers, kLayerWindow).value_or(gemma3_flags(h.n_layers, pattern_of(config)));
  for (std::uint8_t& flag : plan.flags) {
    if (flag == 0) continue;
    if (h.sliding_window == 0)
      fail(ML_E_FORMAT, "{}: sliding_window is 0 or null, but there are sliding layers; needed: 1 and more",
           config.name());
    if (h.rope_local_theta == 0)
      fail(ML_E_FORMAT, "{}: the RoPE base of sliding layers is 0; allowed: above 0", config.name());
    flag = kLayerWindow | kLayerLocalRope;
  }
  hf_finish(checkpoint, kNames, from_halves_norms_plus_one, plan);
  return plan;
}

/// A GGUF has no query_pre_attn_scalar: it is the head size, but for the 27B models, known by their layers,
/// dim / heads.
void gemma_gguf_fields(MlbHeader& h, std::uint32_t layers_27b) {
  const float given = h.attn_scale;
  gemma_fields(h, h.n_layers == layers_27b ? h.dim / h.n_heads : h.head_size());
  if (given != 0) h.attn_scale = given;
  h.act = kActGelu;
}

/// The windowed layers: a list, or "all but every n-th", or `pattern`.
std::vector<std::uint8_t> gguf_windows(GgufKeys& keys, std::uint32_t n_layers, std::uint32_t pattern,
                                       std::uint8_t flag) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  if (keys.is_array(kKey)) {
    const auto windowed = keys.per_layer(kKey, n_layers).value();
    std::vector<std::uint8_t> flags(n_layers, 0);
    for (std::size_t i = 0; i < flags.size(); ++i)
      if (windowed[i]) flags[i] = flag;
    return flags;
  }
  pattern = keys.optional(kKey).value_or(pattern);
  return pattern == 0 ? std::vector<std::uint8_t>(n_layers, flag)
                      : windowed_except_every(n_layers, pattern, flag);
}

ModelPlan plan_gemma2_gguf(const Gguf& gguf, const StorageChoice& storage) {
  GgufKeys keys(gguf, "gemma2");
  ModelPlan plan;
  MlbHeader& h = plan.header;
  h = gguf_base_header(keys, storage);
  gemma_gguf_fields(h, 46);
  h.attn_softcap = keys.number("attn_logit_softcapping").value_or(50.0f);
  h.final_softcap = keys.number("final_logit_softcapping").value_or(30.0f);
  h.sliding_window = keys.optional("attention.sliding_window").value_or(4096);
  keys.refuse_unless("rope.freq_base_swa", static_cast<double>(h.rope_theta),
                     "windowed layers with a RoPE base of their own are not supported");
  if (h.sliding_window != 0) plan.flags = gguf_windows(keys, h.n_layers, 2, kLayerWindow);
  gguf_finish(keys, kNames, from_halves, plan);
  return plan;
}

ModelPlan plan_gemma3_gguf(const Gguf& gguf, const StorageChoice& storage) {
  GgufKeys keys(gguf, "gemma3");
  ModelPlan plan;
  plan.q4_rule = Q4Rule::round;
  MlbHeader& h = plan.header;
  h = gguf_base_header(keys, storage);
  gemma_gguf_fields(h, 62);
  h.qk_norm = 1;
  h.final_softcap = keys.number("final_logit_softcapping").value_or(0);
  h.rope_local_theta = keys.number("rope.freq_base_swa").value_or(static_cast<float>(kLocalTheta));
  h.sliding_window = keys.optional("attention.sliding_window").value_or(0);
  if (h.sliding_window != 0)
    plan.flags = gguf_windows(keys, h.n_layers, kGemma3Pattern, kLayerWindow | kLayerLocalRope);
  gguf_finish(keys, kNames, from_halves, plan);
  return plan;
}

constexpr std::string_view kGemma2Gguf[] = {"gemma2"};
constexpr std::string_view kGemma3Gguf[] = {"gemma3"};
constexpr std::string_view kGemma2Hf[] = {"gemma2"};
constexpr std::string_view kGemma3Hf[] = {"gemma3", "gemma3_text"};

}  // namespace

const Family kGemma2{
    .gguf = kGemma2Gguf, .hf = kGemma2Hf, .plan_gguf = plan_gemma2_gguf, .plan_hf = plan_gemma2_hf};
const Family kGemma3{
    .gguf = kGemma3Gguf, .hf = kGemma3Hf, .plan_gguf = plan_gemma3_gguf, .plan_hf = plan_gemma3_hf};

}  // namespace krafla
