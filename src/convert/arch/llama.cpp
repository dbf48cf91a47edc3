// Llama 1 to 3.x, SmolLM2, Mistral and others that GGUF calls "llama". The rows of q and k (and of their biases) lie in the GGUF in
// interleaved pairs already, as .mlb wants them.
#include "convert/arch/registry.h"
#include "convert/gguf_source.h"

namespace krafla {
namespace {

constexpr GgufName kNames[] = {
    {"tok_emb", "token_embd.weight"}, {"attn_norm", "blk.{}.attn_norm.weight"},
    {"wq", "blk.{}.attn_q.weight"},   {"wk", "blk.{}.attn_k.weight"},
    {"wv", "blk.{}.attn_v.weight"},   {"wo", "blk.{}.attn_output.weight"},
    {"bq", "blk.{}.attn_q.bias"},     {"bk", "blk.{}.attn_k.bias"},
    {"bv", "blk.{}.attn_v.bias"},     {"ffn_norm", "blk.{}.ffn_norm.weight"},
    {"w1", "blk.{}.ffn_gate.weight"}, {"w2", "blk.{}.ffn_down.weight"},
    {"w3", "blk.{}.ffn_up.weight"},   {"final_norm", "output_norm.weight"},
    {"wcls", "output.weight"},
};

// Tables of RoPE that old converters wrote along; rope_freqs.weight is read by gguf_rope_scaling.
constexpr std::string_view kIgnored[] = {"rope_freqs.weight", ".attn_rot_embd.weight", ".rotary_emb.inv_freq"};

}  // namespace

ModelPlan plan_llama_gguf(const Gguf& gguf, const StorageChoice& storage) {
  GgufKeys keys(gguf, "llama");
  ModelPlan plan;
  MlbHeader& h = plan.header;
  keys.refuse_unless("expert_count", 0, "mixtures of experts are not supported");
  keys.refuse_unless("expert_used_count", 0, "mixtures of experts are not supported");
  keys.refuse_unless("attention.causal", 1, "only causal models are supported");
  keys.refuse_unless("attention.max_alibi_bias", 0, "ALiBi is not supported");
  keys.refuse_unless("attention.clamp_kqv", 0, "clamped q, k and v are not supported");
  keys.refuse_unless("logit_scale", 1, "scaled logits are not supported");
  keys.refuse_unless("residual_scale", 1, "scaled residuals are not supported");
  keys.refuse_unless("use_parallel_residual", 0, "parallel residuals are not supported");
  h = gguf_base_header(keys);
  h.wtype = static_cast<std::uint32_t>(storage.type);
  h.scale_f16 = storage.scale_f16;
  h.q8_mask = storage.q8_mask;
  h.shared_classifier = gguf_shares_classifier(gguf);
  h.qkv_bias = gguf.tensor("blk.0.attn_q.bias") != nullptr;
  h.sliding_window = keys.optional("attention.sliding_window").value_or(0);
  h.attn_scale = keys.number("attention.scale").value_or(0);
  h.embed_scale = keys.number("embedding_scale").value_or(0);
  check_mlb_header(h, gguf.name);  // before the scaling, which divides by heads
  gguf_rope_scaling(keys, h);
  const MlbCanonical canonical = canonical_mlb(h, {}, gguf.name);
  h = canonical.header;
  constexpr std::string_view kClassifier[] = {"rope_freqs.weight", ".attn_rot_embd.weight", ".rotary_emb.inv_freq", "output.weight"};
  if (h.shared_classifier != 0)
    map_gguf_tensors(gguf, kNames, kClassifier, plan);
  else
    map_gguf_tensors(gguf, kNames, kIgnored, plan);
  for (const std::string& key : keys.unread()) plan.notes.push_back("not used: " + printable(key));
  return plan;
}

}  // namespace krafla
