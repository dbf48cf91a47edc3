// The MLI1 importance matrix: per input channel of the matrices, the sum of squares it had over many tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "formats/mlb_header.h"

namespace krafla {

class OutputFile;

/// The groups of channels of a layer, in file order: the inputs of wq/wk/wv (dim), wo (q_dim), w1/w3 (dim),
/// w2 (hidden_dim). In a linear-attention layer: of lqkv/lz/lb/la, and of lout.
enum class MliSlot : std::uint8_t { qkv, o, up, down };

/// A whole file, copied out (it is small). q_dim is the value meant, never 0.
struct Mli {
  std::uint32_t n_layers = 0;
  std::uint32_t dim = 0;
  std::uint32_t hidden_dim = 0;
  std::uint32_t q_dim = 0;
  std::uint64_t layer_tokens = 0;       // summed into the layers
  std::uint64_t classifier_tokens = 0;  // summed into the classifier
  std::vector<double> sums;             // all groups in file order

  std::size_t layer_size() const { return std::size_t{2} * dim + q_dim + hidden_dim; }
  std::span<const double> layer(std::size_t i, MliSlot slot) const;
  std::span<double> layer(std::size_t i, MliSlot slot);
  std::span<const double> classifier() const { return std::span(sums).last(dim); }
  std::span<double> classifier() { return std::span(sums).last(dim); }
};

/// Sums of zero for such a model; it need not fit (check_mli_model).
Mli empty_mli(const MlbHeader& header);

/// Parses a file: ML_E_FORMAT for magic, version, size, zero tokens, and sums that are NaN, infinite,
/// negative or all zero in a group; ML_E_SHAPE for dimensions of 0. `name` is the file's name for messages.
Mli parse_mli(Bytes file, std::string_view name);

/// Whether it was measured on such a model: ML_E_SHAPE naming the dimension, also for a linear-attention
/// layer whose lout has other than q_dim inputs (there is no place for them). `flags`: the model's layer
/// flags, or empty.
void check_mli_model(const Mli& mli, const MlbHeader& header, std::span<const std::uint8_t> flags,
                     std::string_view name);

/// Whether every sum is a finite number: ML_E_NUMERIC naming `model`, which they were measured on, the layer
/// and the matrices whose input it is.
void check_mli_measured(const Mli& mli, std::string_view model);

/// Writes everything to `file` and commits it. Refuses what parse_mli would refuse, naming `path`.
void write_mli(OutputFile& file, std::string_view path, const Mli& mli);

}  // namespace krafla
