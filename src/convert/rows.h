// What is done to the rows of a checkpoint's tensors on their way into a .mlb.
#pragma once

#include <cstddef>
#include <vector>

#include "convert/plan.h"

namespace krafla {

/// The tensor whose row i is row order[i] of `t` (of its rows after an earlier reordering).
SourceTensor pick_rows(SourceTensor t, const std::vector<std::size_t>& order);

/// The tensor whose column i is column order[i] of `t`. For a vector (one row): its elements.
SourceTensor pick_cols(SourceTensor t, std::vector<std::size_t> order);

/// From rotate-half to interleaved pairs, within the first `rotated` of the `head` rows of every head: new
/// row 2i is old row i, new row 2i + 1 is old row i + rotated / 2. A vector's elements are its rows. `head`
/// divides their number, and rotated, which is even, is at most head.
SourceTensor interleave_heads(SourceTensor t, std::size_t head, std::size_t rotated);

/// Whether the checkpoint's tensor of `target` has two rows for each of its own: with an attention gate, wq
/// and wg come out of one tensor, which has each head's query, then its gate.
bool holds_query_and_gate(const MlbHeader& h, const MlbTensor& target);

/// What a family does to the rows of a checkpoint's tensor on the way to `target`.
using PrepareRows = SourceTensor (*)(SourceTensor t, const MlbHeader& h, const MlbTensor& target);

/// Nothing: the rows are those of the .mlb.
SourceTensor as_they_are(SourceTensor t, const MlbHeader& h, const MlbTensor& target);

/// From Hugging Face's order: wq and wg out of the tensor that holds both, and what RoPE rotates from halves
/// to interleaved pairs. Other tensors stay.
SourceTensor from_halves(SourceTensor t, const MlbHeader& h, const MlbTensor& target);

/// The same, and 1 + w for all norms but lnorm.
SourceTensor from_halves_norms_plus_one(SourceTensor t, const MlbHeader& h, const MlbTensor& target);

/// log(-x): A_log, of which GGUF has -exp(A_log). ML_E_FORMAT naming the tensor where x is not below 0.
SourceTensor log_of_negated(SourceTensor t);

}  // namespace krafla
