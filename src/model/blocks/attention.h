// Attention with grouped queries over the paged KV cache (docs/arithmetic.md A5, A6).
#pragma once

#include "model/batch.h"

namespace krafla {

/// Scratch bytes that attention() needs of each thread for tiles of up to `queries` query heads of one kv
/// head.
std::size_t attention_scratch(const ModelConfig& config, std::size_t queries);

/// Cuts the attention of batch.tiles into batch.plans and sizes batch.partials.
void plan_attention(const Model& model, const Context& context, Batch& batch);

/// Reads batch.h [n][dim] (normalized), leaves the block's output there; writes the rows' keys and values to
/// their pages.
void attention(const Model& model, std::size_t layer_index, Context& context, Batch& batch);

}  // namespace krafla
