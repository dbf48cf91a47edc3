// Where keys, values and recurrent states lie: which layers keep their pages together, and what a page holds.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/kernels.h"
#include "model/config.h"
#include "model/state/recurrent.h"

namespace krafla {

/// A page holds 64 consecutive positions of all layers of a group (docs/arithmetic.md A6). Layers with a
/// sliding window are a group of their own, so that their pages can be freed when the window has passed.
/// Linear-attention layers need a fixed amount of memory a sequence, whatever its length: it is one page of
/// the group `linear`.
class KvLayout {
 public:
  enum Group { full = 0, windowed = 1, linear = 2, groups = 3 };

  KvLayout(const ModelConfig& config, KvType type);

  /// The model that it was made for.
  const ModelConfig& config() const { return config_; }
  KvType type() const { return type_; }
  Group group(std::size_t layer) const { return places_[layer].group; }
  /// Whether some layer is of the group.
  bool has(Group group) const { return layers_[group] != 0; }
  /// 0 for a group without layers.
  std::size_t page_bytes(Group group) const {
    return layers_[group] * (group == linear ? recurrent_.bytes() : layer_bytes());
  }
  /// Bytes of one position's keys and values in one layer.
  std::size_t position_bytes() const { return layer_bytes() / kPage; }
  /// What the layers of the group `windowed` see: the last so many positions.
  std::size_t window() const { return window_; }
  /// Byte offsets in a page: K [kv_head][head_dim][64], then V [kv_head][64][head_dim]. With q8_0, each kv
  /// head's int8 are followed by its f16 scales: [blocks][64] for K, [64][blocks] for V.
  std::size_t k_offset(std::size_t layer, std::size_t kv_head) const {
    return places_[layer].index * layer_bytes() + kv_head * head_bytes();
  }
  std::size_t v_offset(std::size_t layer, std::size_t kv_head) const {
    return k_offset(layer, config_.kv_heads + kv_head);
  }
  const RecurrentLayout& recurrent() const { return recurrent_; }
  /// Byte offset of a linear-attention layer's state.
  std::size_t recurrent_offset(std::size_t layer) const { return places_[layer].index * recurrent_.bytes(); }
  /// Whether a sequence can forget its last positions, however many: it holds all of its past.
  bool keeps_past() const { return !has(windowed) && !has(linear); }

 private:
  struct Place {
    Group group;
    std::size_t index;  // among the group's layers
  };
  std::size_t head_bytes() const;
  std::size_t layer_bytes() const { return 2 * config_.kv_heads * head_bytes(); }

  ModelConfig config_;
  KvType type_;
  std::size_t window_ = 0;
  RecurrentLayout recurrent_;
  std::size_t layers_[groups] = {};
  std::vector<Place> places_;
};

/// "f16", "f32" or "q8_0".
const char* kv_type_name(KvType type);

}  // namespace krafla
