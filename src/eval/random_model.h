// A model with random weights, for measuring the speed of models whose weights are not at hand: its text is
// noise, its speed is that of a trained model of the same sizes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "model/model.h"

namespace krafla {

/// How large a model is.
struct ModelSize {
  std::uint64_t parameters;
  std::uint64_t bytes;  ///< of its .mlb file
};
/// `flags`: one byte per layer. ML_E_FORMAT or ML_E_SHAPE, naming the field, for a header that no model may
/// have.
ModelSize model_size(const MlbHeader& header, std::span<const std::uint8_t> flags, const std::string& name);

/// Makes a model with that header in memory; `name` is its path in messages. Its bytes are the same on every
/// machine and with any number of threads: quants are uniform (odd in Q8_0), scales give weights of about
/// 0.02, norms are 1, biases 0. ML_E_MEMORY if it does not fit into the address space.
Model random_model(const MlbHeader& header, std::span<const std::uint8_t> flags, const std::string& name,
                   ThreadPool& threads);

}  // namespace krafla
