// The sizes of published models, for measuring speed without their weights (eval/random_model.h).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "formats/mlb.h"

namespace krafla {

/// The sizes of a published model: its header without the matrices' type, and the kinds of its layers.
struct ModelShape {
  const char* name;
  MlbHeader sizes;  ///< wtype and scale_f16 are not set
  /// Every full_every-th layer has full attention; the others have the flags `between`.
  std::uint32_t full_every = 1;
  std::uint8_t between = 0;

  /// The header of such a model whose matrices are all of one type, with f16 scales.
  MlbHeader header(WeightType type) const;
  /// One flag byte per layer.
  std::vector<std::uint8_t> flags() const;
};

/// All shapes, by name.
std::span<const ModelShape> model_shapes();

/// The shape of that name. ML_E_ARG, listing all names, if there is none.
const ModelShape& find_shape(std::string_view name);

}  // namespace krafla
