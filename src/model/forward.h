// The forward pass: token ids of many sequences in, logits out. What shares a batch cannot change a result.
#pragma once

#include <span>

#include "model/batch.h"

namespace krafla {

/// Runs the rows through the model and appends them to their sequences. `logits` receives [rows that want them][vocab] in
/// row order. `batch` holds the buffers and is reused from call to call.
/// ML_E_ARG for a token outside the vocabulary, rows of one sequence that do not stand together, or a position beyond max_seq;
/// then no sequence has changed its length. A NaN among the logits is not an error here.
void forward(const Model& model, Context& context, Batch& batch, std::span<const BatchRow> rows, float* logits);

}  // namespace krafla
