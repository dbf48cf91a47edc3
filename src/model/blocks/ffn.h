// The feed-forward block: w2 · (act(w1 · h) * (w3 · h)).
#pragma once

#include "model/batch.h"

namespace krafla {

/// Reads batch.h [n][dim] (normalized), leaves the block's output there.
void feed_forward(const Model& model, std::size_t layer_index, Context& context, Batch& batch);

}  // namespace krafla
