// The feed-forward block: w2 · (act(w1 · h) * (w3 · h)).
#pragma once

#include "model/batch.h"

namespace krafla {

/// Floats of batch.pieces that a call of n rows needs.
std::size_t ffn_pieces(const Model& model, const Context& context, std::size_t n);

/// Reads batch.h [n][dim] (normalized), leaves the block's output there.
void feed_forward(const Model& model, std::size_t layer_index, Context& context, Batch& batch);

}  // namespace krafla
