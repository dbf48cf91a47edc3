// What linear-attention layers remember instead of keys and values (docs/arithmetic.md A7): a fixed amount,
// all floats, zeros before the first position.
#pragma once

#include <algorithm>
#include <cstddef>

#include "formats/mlb_header.h"
#include "kernels/kernels.h"

namespace krafla {

/// One layer's state: the convolution's last inputs [lin_conv - 1][stride], then each value head's S, which
/// is cut into slices of kDeltaSlice values that lie together: [value head][slice][dk][values of the slice,
/// rounded up to 8].
class RecurrentLayout {
 public:
  explicit RecurrentLayout(const MlbHeader& header)
      : channels_(header.lin_channels()),
        past_(header.has_linear() ? header.lin_conv - 1 : 0),
        heads_(header.lin_v_heads),
        dk_(header.lin_k_dim),
        dv_(header.lin_v_dim) {}

  /// Floats between rows of channels: an odd number of cache lines, so that a column's rows do not all fall
  /// on the same few sets.
  std::size_t stride() const { return ((channels_ + 15) / 16 | 1) * 16; }
  /// Rows of the convolution's past inputs.
  std::size_t past() const { return past_; }
  /// Slices of a value head.
  std::size_t slices() const { return (dv_ + kDeltaSlice - 1) / kDeltaSlice; }
  std::size_t slice_width(std::size_t slice) const {
    return std::min<std::size_t>(kDeltaSlice, dv_ - slice * kDeltaSlice);
  }
  /// In floats from the layer's state on.
  std::size_t slice_offset(std::size_t head, std::size_t slice) const {
    return past_ * stride() + (head * padded_values() + slice * kDeltaSlice) * dk_;
  }
  /// Bytes of a layer's state, a multiple of 64.
  std::size_t bytes() const { return (slice_offset(heads_, 0) * sizeof(float) + 63) / 64 * 64; }

 private:
  std::size_t padded_values() const { return (dv_ + 7) / 8 * 8; }

  std::size_t channels_, past_, heads_, dk_, dv_;
};

}  // namespace krafla
