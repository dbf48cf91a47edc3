// IEEE binary16 and bfloat16 as bits, converted exactly or by round to nearest even. Portable scalar code;
// the kernels have vector forms that give the same bits. Static and free of templates: kernel files, compiled
// for newer instruction sets, may include it without leaking a weak symbol.
#pragma once

#include <cstdint>

namespace krafla {

[[maybe_unused]] static constexpr float f16_to_float(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  const std::uint32_t magnitude = h & 0x7fffu;
  if (magnitude >= 0x7c00u)  // inf and NaN
    return __builtin_bit_cast(float, sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude >= 0x0400u) return __builtin_bit_cast(float, sign | ((magnitude << 13) + 0x38000000u));
  const float tiny = static_cast<float>(magnitude) * 0x1p-24f;  // zero and denormals, exact
  return __builtin_bit_cast(float, sign | __builtin_bit_cast(std::uint32_t, tiny));
}

/// Round to nearest even; above 65519.996 gives inf; NaN gives a quiet NaN.
[[maybe_unused]] static constexpr std::uint16_t float_to_f16(float f) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, f);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {  // the result is denormal or zero: let an addition round at 2^-24
    const float rounded = __builtin_bit_cast(float, magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (__builtin_bit_cast(std::uint32_t, rounded) - 0x3f000000u));
  }
  const std::uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

[[maybe_unused]] static constexpr float bf16_to_float(std::uint16_t b) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(b) << 16);
}

}  // namespace krafla
