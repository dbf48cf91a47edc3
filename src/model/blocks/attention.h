// Attention with grouped queries over the paged KV cache (docs/arithmetic.md A5, A6).
#pragma once

#include "model/batch.h"

namespace krafla {

/// Reads batch.h [n][dim] (normalized), leaves the block's output there; writes the rows' keys and values to
/// their pages.
void attention(const Model& model, std::size_t layer_index, Context& context, Batch& batch);

}  // namespace krafla
