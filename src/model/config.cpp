#include "model/config.h"

#include <algorithm>
#include <cmath>

namespace krafla {
namespace {

LayerSpec layer_spec(const MlbHeader& header, std::uint8_t flags) {
  LayerSpec layer;
  layer.linear = (flags & kLayerLinear) != 0;
  layer.window = (flags & kLayerWindow) != 0 ? header.sliding_window : 0;
  if ((flags & kLayerNoRope) != 0)
    layer.rope = Rope::none;
  else if ((flags & kLayerLocalRope) != 0)
    layer.rope = Rope::local;
  return layer;
}

}  // namespace

ModelConfig::ModelConfig(const Mlb& mlb) {
  const MlbHeader& header = mlb.header;
  dim = header.dim;
  hidden_dim = header.hidden_dim;
  vocab = header.vocab;
  max_seq = header.max_seq;
  heads = header.n_heads;
  kv_heads = header.n_kv_heads;
  head_dim = header.head_size();
  norm_eps = header.norm_eps;
  embed_scale = header.embed_scale;
  attn_scale = header.attn_scale != 0 ? header.attn_scale
                                      : static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)));
  attn_softcap = header.attn_softcap;
  final_softcap = header.final_softcap;
  activation = static_cast<MlbActivation>(header.act);
  if (header.has_linear())
    linear = {header.lin_k_heads, header.lin_v_heads, header.lin_k_dim, header.lin_v_dim, header.lin_conv};
  for (const MlbLayer& layer : mlb.layers) layers.push_back(layer_spec(header, layer.flags));
}

std::size_t ModelConfig::widest_input() const {
  return std::max({dim, hidden_dim, q_dim(), linear.values()});
}

}  // namespace krafla
