// The forward pass: tokens of many sequences in, logits out. What shares a batch cannot change a result.
#pragma once

#include <span>

#include "model/batch.h"

namespace krafla {

/// Runs the feeds through all layers and appends them to their sequences. `batch` holds the buffers and is
/// reused from call to call. False if batch.cancelled gave the call up between two layers; then every
/// sequence is as it was before. ML_E_ARG as check_feed(), or for sequences of different KV types;
/// ML_E_MEMORY where the pages do not suffice. All that can fail happens before the first layer, and then no
/// sequence has changed its length.
bool forward(const Model& model, Context& context, Batch& batch, std::span<const Feed> feeds);

/// The hidden states of the last forward's wanted rows after the final norm, from the first-th on:
/// [count][dim]. They stay until the next call with this batch.
const float* hidden_states(const Model& model, Context& context, Batch& batch, std::size_t first,
                           std::size_t count);

/// The logits of the last forward's wanted rows, from the first-th on, `count` of them: [count][vocab] in row
/// order. A NaN among them is not an error here.
void classify(const Model& model, Context& context, Batch& batch, std::size_t first, std::size_t count,
              float* logits);

}  // namespace krafla
