// SmolLM3: a Llama whose every fourth layer leaves queries and keys unrotated.
#include "convert/arch/registry.h"
#include "convert/gguf_source.h"

namespace krafla {
namespace {

constexpr HfDefaults kDefaults{.vocab = 128256,
                               .dim = 2048,
                               .hidden = 11008,
                               .layers = 36,
                               .heads = 16,
                               .kv_heads = 4,
                               .max_seq = 32768,
                               .tied = true,
                               .rope_theta = 2e6};

/// Every interval-th layer has no RoPE. interval: at least 1.
std::vector<std::uint8_t> no_rope_every(std::uint32_t n_layers, std::uint32_t interval) {
  std::vector<std::uint8_t> flags(n_layers, 0);
  for (std::uint32_t i = interval - 1; i < n_layers; i += interval) flags[i] = kLayerNoRope;
  return flags;
}

/// no_rope_layers, a list with 1 for layers that do have RoPE (entries beyond the layers do not count), or
/// no_rope_layer_interval.
std::vector<std::uint8_t> no_rope_layers(const HfConfig& config, std::uint32_t n_layers) {
  const std::uint32_t interval = config.count("no_rope_layer_interval").value_or(4);
  const auto rope = config.booleans("no_rope_layers");
  if (!rope) {
    if (interval == 0)
      fail(ML_E_FORMAT, "{}: no_rope_layer_interval is 0; allowed: 1 and more", config.name());
    return no_rope_every(n_layers, interval);
  }
  if (rope->size() < n_layers)
    fail(ML_E_FORMAT, "{}: no_rope_layers has {} entries; needed: one per layer ({})", config.name(),
         rope->size(), n_layers);
  std::vector<std::uint8_t> flags(n_layers, 0);
  for (std::size_t i = 0; i < flags.size(); ++i)
    if ((*rope)[i] == 0) flags[i] = kLayerNoRope;
  return flags;
}

ModelPlan plan_smollm3_hf(const HfCheckpoint& checkpoint, const StorageChoice& storage) {
  const HfConfig& config = checkpoint.config();
  hf_refuse_attention_bias(config);
  ModelPlan plan;
  MlbHeader& h = plan.header;
  h = hf_base_header(checkpoint, kDefaults, storage);
  plan.flags = no_rope_layers(config, h.n_layers);
  const auto types = hf_layer_types(config, h.n_layers, kLayerWindow);
  h.sliding_window = config.boolean("use_sliding_window").value_or(false) ? hf_window(config, 0) : 0;
  for (std::uint32_t i = 0; i < h.n_layers && h.sliding_window != 0; ++i)
    plan.flags[i] |= types                           ? (*types)[i]
                     : plan.flags[i] == kLayerNoRope ? kLayerWindow
                                                     : 0;  // by default where there is no RoPE
  hf_finish(checkpoint, {}, from_halves, plan);
  return plan;
}

/// A GGUF does not say which layers these are: always every fourth.
ModelPlan plan_smollm3_gguf(const Gguf& gguf, const StorageChoice& storage) {
  GgufKeys keys(gguf, "smollm3");
  ModelPlan plan;
  plan.header = gguf_base_header(keys, storage);
  plan.flags = no_rope_every(plan.header.n_layers, 4);
  gguf_finish(keys, {}, as_they_are, plan);
  return plan;
}

constexpr std::string_view kGguf[] = {"smollm3"};
constexpr std::string_view kHf[] = {"smollm3"};

}  // namespace

const Family kSmolLm3{.gguf = kGguf, .hf = kHf, .plan_gguf = plan_smollm3_gguf, .plan_hf = plan_smollm3_hf};

}  // namespace krafla
