// A sequence in a file (docs/formats/mls.md), to go on with later: bit-equal to one that was never saved.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "base/thread_pool.h"
#include "model/model.h"
#include "model/state/sequence.h"

namespace krafla {

/// Writes the sequence, whose positions are `ids`, and commits the file. `model_hash`: hash_bytes() of the
/// model's file, which reads all of it: keep it. ML_E_ARG for an empty sequence, or ids that are not one for
/// each position.
void save_sequence(OutputFile& file, std::uint64_t model_hash, std::span<const std::int32_t> ids,
                   const Sequence& sequence, ThreadPool& threads);

struct SavedSequence {
  Sequence sequence;
  std::vector<std::int32_t> ids;  // at its positions
};

/// Reads a file into pages of the pool. ML_E_IO, ML_E_FORMAT (the format page's, a hash of the content that
/// differs, ids outside the vocabulary), ML_E_SHAPE if it was made with another model or KV type,
/// ML_E_MEMORY.
SavedSequence load_sequence(const std::string& path, const Model& model, std::uint64_t model_hash,
                            PagePool& pool, ThreadPool& threads);

}  // namespace krafla
