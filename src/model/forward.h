// The forward pass: token ids of many sequences in, logits out. What shares a batch cannot change a result.
#pragma once

#include <span>

#include "model/batch.h"

namespace krafla {

/// Runs the rows through all layers and appends them to their sequences. `batch` holds the buffers and is
/// reused from call to call. False if batch.cancelled gave the call up between two layers: then every
/// sequence is as it was before. ML_E_ARG for a token outside the vocabulary, rows of one sequence that do
/// not stand together, or a position beyond max_seq; then no sequence has changed its length.
bool forward(const Model& model, Context& context, Batch& batch, std::span<const BatchRow> rows);

/// What classify() multiplies: the final norm of the last forward's rows that want logits, from the first-th
/// on, in batch.h [count][dim]. Alone it counts rows in an importance matrix whose logits nobody needs.
void classifier_input(const Model& model, Context& context, Batch& batch, std::size_t first,
                      std::size_t count);

/// The logits of the last forward's rows that want them, from the first-th on, `count` of them:
/// [count][vocab] in row order. A NaN among them is not an error here.
void classify(const Model& model, Context& context, Batch& batch, std::size_t first, std::size_t count,
              float* logits);

}  // namespace krafla
