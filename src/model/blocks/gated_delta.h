// Linear attention: the gated delta rule, a recurrent state in place of a KV cache (docs/arithmetic.md A7).
#pragma once

#include "model/batch.h"

namespace krafla {

/// Reads batch.h [n][dim] (normalized), leaves the block's output there; moves the sequences' states on by
/// the batch's rows.
void gated_delta(const Model& model, std::size_t layer_index, Context& context, Batch& batch);

}  // namespace krafla
