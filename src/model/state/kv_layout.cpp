#include "model/state/kv_layout.h"

namespace krafla {

KvLayout::KvLayout(const ModelConfig& config, KvType type)
    : config_(config), type_(type), recurrent_(config.linear) {
  for (const LayerSpec& layer : config.layers) {
    const Group group = layer.linear ? linear : layer.window != 0 ? windowed : full;
    if (group == windowed) window_ = layer.window;
    places_.push_back({group, layers_[group]++});
  }
}

std::size_t KvLayout::head_bytes() const {
  const std::size_t blocks = (config_.head_dim + kKvBlock - 1) / kKvBlock;
  switch (type_) {
    case KvType::q8_0: return (config_.head_dim + blocks * sizeof(std::uint16_t)) * kPage;
    case KvType::f32: return config_.head_dim * kPage * sizeof(float);
    default: return config_.head_dim * kPage * sizeof(std::uint16_t);
  }
}

const char* kv_type_name(KvType type) {
  switch (type) {
    case KvType::q8_0: return "q8_0";
    case KvType::f32: return "f32";
    default: return "f16";
  }
}

}  // namespace krafla
