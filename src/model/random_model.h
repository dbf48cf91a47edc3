// Models of published sizes with random weights, for measuring what cannot be fetched. Their text is noise;
// their speed is the real one's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.h"

namespace krafla {

/// The figures of a published model. wtype and scale_f16 are left open.
struct ModelShape {
  const char* name;
  MlbHeader header;
  /// Every so many layers is one of full attention; the others have the flags `between`. 1: all layers are
  /// alike.
  std::uint32_t full_every = 1;
  std::uint8_t between = 0;

  /// One flag byte a layer.
  std::vector<std::uint8_t> flags() const;
};

/// The shapes there are, by name.
std::span<const ModelShape> model_shapes();

/// The one of that name; ML_E_ARG, listing all, if there is none.
const ModelShape& find_shape(std::string_view name);

/// What a model of that shape comes to, all matrices of one type with f16 scales.
struct ShapeSize {
  std::uint64_t parameters;
  std::uint64_t bytes;  ///< of its .mlb
};
ShapeSize shape_size(const ModelShape& shape, WeightType type);

/// A model of that shape and size in memory. The same on every machine and with any number of threads: quants
/// are uniform (odd in Q8_0), scales give weights of about 0.02, norms are 1, biases 0. ML_E_MEMORY if there
/// is no address space for it.
Model random_model(const ModelShape& shape, WeightType type, ThreadPool& threads);

}  // namespace krafla
