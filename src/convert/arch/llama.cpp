// Llama 1 to 3.x, SmolLM2, Mistral and others that GGUF calls "llama". The rows of q and k (and of their
// biases) lie in the GGUF in interleaved pairs already, as .mlb wants them.
#include "convert/arch/registry.h"
#include "convert/gguf_source.h"

namespace krafla {
namespace {

constexpr HfDefaults kLlamaDefaults{.vocab = 32000, .dim = 4096, .hidden = 11008, .layers = 32, .heads = 32};
constexpr HfDefaults kMistralDefaults{.vocab = 32000,
                                      .dim = 4096,
                                      .hidden = 14336,
                                      .layers = 32,
                                      .heads = 32,
                                      .kv_heads = 8,
                                      .max_seq = 131072};

ModelPlan plan_llama_hf(const HfCheckpoint& checkpoint, const StorageChoice& storage) {
  hf_refuse_attention_bias(checkpoint.config());
  ModelPlan plan;
  plan.header = hf_base_header(checkpoint, kLlamaDefaults, storage);
  hf_layer_types(checkpoint.config(), plan.header.n_layers, 0);
  hf_finish(checkpoint, {}, from_halves, plan);
  return plan;
}

/// Every layer is windowed, unless layer_types says otherwise or sliding_window is null.
ModelPlan plan_mistral_hf(const HfCheckpoint& checkpoint, const StorageChoice& storage) {
  const HfConfig& config = checkpoint.config();
  hf_refuse_attention_bias(config);
  ModelPlan plan;
  MlbHeader& h = plan.header;
  h = hf_base_header(checkpoint, kMistralDefaults, storage);
  h.sliding_window = hf_window(config, 4096);
  const auto types = hf_layer_types(config, h.n_layers, kLayerWindow);
  if (h.sliding_window != 0) plan.flags = types.value_or(std::vector<std::uint8_t>(h.n_layers, kLayerWindow));
  hf_finish(checkpoint, {}, from_halves, plan);
  return plan;
}

ModelPlan plan_llama_gguf(const Gguf& gguf, const StorageChoice& storage) {
  GgufKeys keys(gguf, "llama");
  ModelPlan plan;
  plan.header = gguf_base_header(keys, storage);
  plan.header.sliding_window = keys.optional("attention.sliding_window").value_or(0);
  gguf_finish(keys, {}, as_they_are, plan);
  return plan;
}

constexpr std::string_view kLlamaGguf[] = {"llama"};
constexpr std::string_view kLlamaHf[] = {"llama"};
constexpr std::string_view kMistralHf[] = {"mistral"};

}  // namespace

const Family kLlama{
    .gguf = kLlamaGguf, .hf = kLlamaHf, .plan_gguf = plan_llama_gguf, .plan_hf = plan_llama_hf};
const Family kMistral{.gguf = {}, .hf = kMistralHf, .plan_hf = plan_mistral_hf};

}  // namespace krafla
