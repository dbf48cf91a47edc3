// Qwen2, Qwen2.5 and Qwen3 (dense). Qwen2 has biases on q, k and v; Qwen3 has q/k norms instead.
#include "convert/arch/registry.h"
#include "convert/gguf_source.h"

namespace krafla {
namespace {

constexpr HfDefaults kQwen2Defaults{.vocab = 151936,
                                    .dim = 4096,
                                    .hidden = 22016,
                                    .layers = 32,
                                    .heads = 32,
                                    .kv_heads = 32,
                                    .max_seq = 32768};
constexpr HfDefaults kQwen3Defaults{.vocab = 151936,
                                    .dim = 4096,
                                    .hidden = 22016,
                                    .layers = 32,
                                    .heads = 32,
                                    .kv_heads = 32,
                                    .head_dim = 128,
                                    .max_seq = 32768};

/// The window is there only if it is asked for, and then from layer max_window_layers on.
void window(const HfConfig& config, ModelPlan& plan) {
  const std::uint32_t n = plan.header.n_layers;
  const auto types = hf_layer_types(config, n, kLayerWindow);
  if (!config.boolean("use_sliding_window").value_or(false)) return;
  plan.header.sliding_window = hf_window(config, 4096);
  if (plan.header.sliding_window == 0) return;
  const std::uint32_t from = config.count("max_window_layers").value_or(28);
  plan.flags = types.value_or(std::vector<std::uint8_t>(n, 0));
  for (std::uint32_t i = from; i < n && !types; ++i) plan.flags[i] = kLayerWindow;
}

ModelPlan plan_qwen2_hf(const HfCheckpoint& checkpoint, const StorageChoice& storage) {
  ModelPlan plan;
  plan.header = hf_base_header(checkpoint, kQwen2Defaults, storage);
  plan.header.qkv_bias = 1;
  window(checkpoint.config(), plan);
  hf_finish(checkpoint, {}, from_halves, plan);
  return plan;
}

ModelPlan plan_qwen3_hf(const HfCheckpoint& checkpoint, const StorageChoice& storage) {
  hf_refuse_attention_bias(checkpoint.config());
  ModelPlan plan;
  plan.header = hf_base_header(checkpoint, kQwen3Defaults, storage);
  plan.header.qk_norm = 1;
  window(checkpoint.config(), plan);
  hf_finish(checkpoint, {}, from_halves, plan);
  return plan;
}

ModelPlan plan_qwen2_gguf(const Gguf& gguf, const StorageChoice& storage) {
  GgufKeys keys(gguf, "qwen2");
  ModelPlan plan;
  plan.header = gguf_base_header(keys, storage);
  gguf_finish(keys, {}, from_halves, plan);
  return plan;
}

ModelPlan plan_qwen3_gguf(const Gguf& gguf, const StorageChoice& storage) {
  GgufKeys keys(gguf, "qwen3");
  ModelPlan plan;
  plan.header = gguf_base_header(keys, storage);
  plan.header.qk_norm = 1;
  gguf_finish(keys, {}, from_halves, plan);
  return plan;
}

constexpr std::string_view kQwen2Gguf[] = {"qwen2"};
constexpr std::string_view kQwen3Gguf[] = {"qwen3"};
constexpr std::string_view kQwen2Hf[] = {"qwen2"};
constexpr std::string_view kQwen3Hf[] = {"qwen3"};

}  // namespace

const Family kQwen2{
    .gguf = kQwen2Gguf, .hf = kQwen2Hf, .plan_gguf = plan_qwen2_gguf, .plan_hf = plan_qwen2_hf};
const Family kQwen3{
    .gguf = kQwen3Gguf, .hf = kQwen3Hf, .plan_gguf = plan_qwen3_gguf, .plan_hf = plan_qwen3_hf};

}  // namespace krafla
