// What is done to the rows of a checkpoint's tensors on their way into a .mlb.
#pragma once

#include <cstddef>
#include <string_view>
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

/// The rows of `target` as Hugging Face has them, as a .mlb has them: with an attention gate, wq and wg out
/// of one tensor that has each head's query, then its gate; wq, wk and what is added to or multiplied with
/// them in interleaved pairs. Other tensors stay.
SourceTensor heads_from_halves(SourceTensor t, const MlbHeader& h, std::string_view target);

/// log(-x): A_log, of which GGUF has -exp(A_log). ML_E_FORMAT naming the tensor where x is not below 0.
SourceTensor log_of_negated(SourceTensor t);

/// A norm stored as w that is used as 1 + w.
SourceTensor plus_one(SourceTensor t);

}  // namespace krafla
