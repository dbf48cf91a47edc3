// What linear-attention layers remember instead of keys and values (docs/arithmetic.md A7): a fixed amount of
// floats, zeros before the first position.
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/round_up.h"
#include "kernels/kernels.h"
#include "model/config.h"

namespace krafla {

/// One layer's state: the last inputs of the convolution, [taps - 1][stride], then S of each value head. S is
/// cut into slices of kDeltaSlice values that lie together: [value head][slice][k_dim][values of the slice,
/// rounded up to 8].
class RecurrentLayout {
 public:
  RecurrentLayout() = default;
  explicit RecurrentLayout(const LinearSpec& linear) : linear_(linear) {}

  /// Floats between rows of channels. An odd number of cache lines: the rows of a column then fall on
  /// different sets.
  std::size_t stride() const { return ((linear_.channels() + 15) / 16 | 1) * 16; }
  /// Rows of the convolution's past inputs.
  std::size_t past() const { return linear_.taps == 0 ? 0 : linear_.taps - 1; }
  /// Slices of a value head.
  std::size_t slices() const { return (linear_.v_dim + kDeltaSlice - 1) / kDeltaSlice; }
  std::size_t slice_width(std::size_t slice) const {
    return std::min<std::size_t>(kDeltaSlice, linear_.v_dim - slice * kDeltaSlice);
  }
  /// Floats from the beginning of the layer's state.
  std::size_t slice_offset(std::size_t head, std::size_t slice) const {
    return past() * stride() + (head * padded_values() + slice * kDeltaSlice) * linear_.k_dim;
  }
  /// Bytes of a layer's state, a multiple of 64.
  std::size_t bytes() const {
    return round_up<std::size_t>(slice_offset(linear_.v_heads, 0) * sizeof(float), 64);
  }

 private:
  std::size_t padded_values() const { return round_up<std::size_t>(linear_.v_dim, 8); }

  LinearSpec linear_;
};

}  // namespace krafla
