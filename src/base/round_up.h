// Rounding up to a multiple. Kernel files may include it: a static function is no weak symbol.
#pragma once

namespace krafla {

/// The smallest multiple of `multiple` (above 0) that is at least n. n + multiple - 1 must not overflow.
template <class T>
[[maybe_unused]] static constexpr T round_up(T n, T multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace krafla
