#include "convert/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>

namespace krafla {
namespace {

constexpr std::size_t kMostListed = 1000;

constexpr TensorName kCommon[] = {
    {"tok_emb", "embed_tokens.weight", "token_embd.weight"},
    {"attn_norm", "layers.{}.input_layernorm.weight", "blk.{}.attn_norm.weight"},
    {"wq", "layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight"},
    {"wk", "layers.{}.self_attn.k_proj.weight", "blk.{}.attn_k.weight"},
    {"wv", "layers.{}.self_attn.v_proj.weight", "blk.{}.attn_v.weight"},
    {"wg", "layers.{}.self_attn.q_proj.weight", "blk.{}.attn_q.weight"},  // wq's, which holds both
    {"wo", "layers.{}.self_attn.o_proj.weight", "blk.{}.attn_output.weight"},
    {"bq", "layers.{}.self_attn.q_proj.bias", "blk.{}.attn_q.bias"},
    {"bk", "layers.{}.self_attn.k_proj.bias", "blk.{}.attn_k.bias"},
    {"bv", "layers.{}.self_attn.v_proj.bias", "blk.{}.attn_v.bias"},
    {"q_norm", "layers.{}.self_attn.q_norm.weight", "blk.{}.attn_q_norm.weight"},
    {"k_norm", "layers.{}.self_attn.k_norm.weight", "blk.{}.attn_k_norm.weight"},
    {"ffn_norm", "layers.{}.post_attention_layernorm.weight", "blk.{}.ffn_norm.weight"},
    {"w1", "layers.{}.mlp.gate_proj.weight", "blk.{}.ffn_gate.weight"},
    {"w2", "layers.{}.mlp.down_proj.weight", "blk.{}.ffn_down.weight"},
    {"w3", "layers.{}.mlp.up_proj.weight", "blk.{}.ffn_up.weight"},
    {"final_norm", "norm.weight", "output_norm.weight"},
    {"wcls", "lm_head.weight", "output.weight"},
};

}  // namespace

const TensorName* find_tensor_name(std::span<const TensorName> own, std::string_view target) {
  for (const std::span<const TensorName> table : {own, std::span<const TensorName>(kCommon)})
    for (const TensorName& row : table)
      if (row.target == target) return &row;
  return nullptr;
}

std::string with_layer(std::string_view pattern, int layer) {
  const std::size_t at = pattern.find("{}");
  if (at == std::string_view::npos) return std::string(pattern);
  return fmt::format("{}{}{}", pattern.substr(0, at), layer, pattern.substr(at + 2));
}

std::string listed(const std::vector<std::string>& entries) {
  const auto end = entries.begin() + static_cast<std::ptrdiff_t>(std::min(entries.size(), kMostListed));
  std::string text = fmt::format(" {}", fmt::join(entries.begin(), end, "; "));
  if (entries.size() > kMostListed) text += fmt::format("; and {} more", entries.size() - kMostListed);
  return text;
}

}  // namespace krafla
