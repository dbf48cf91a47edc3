// What every target file needs before its primitives. Nothing here may become a weak symbol: a function compiled for a
// newer instruction set must not be picked by the linker for older CPUs, so everything lives in an anonymous namespace.
#pragma once

#include <float.h>
#include <stddef.h>
#include <stdint.h>

#include <utility>  // integer_sequence: a type, no code

#include "base/float16.h"
#include "kernels/kernels.h"

#ifdef __FAST_MATH__
#error "the arithmetic contract does not hold under -ffast-math"
#endif
static_assert(FLT_EVAL_METHOD == 0, "floats must not be kept wider");

namespace krafla {
namespace {

constexpr int kLanes = 8;

/// Views into a quantized activation row (its layout: matmul.inl.h).
struct Activation {
  const float* d;        // [blocks], padded to 8 with 0
  const int32_t* sum8;   // [blocks] eight times the sum of the block's quants
  const int8_t* q;       // [padded]
  const uint8_t* extra;  // the instruction set's own copies
  size_t padded;         // elements, a multiple of 256
};

template <int i>
struct Index {
  constexpr operator int() const { return i; }
};

template <class Body, int... i>
inline __attribute__((always_inline)) void unroll_over(std::integer_sequence<int, i...>, Body body) {
  (body(Index<i>{}), ...);
}

/// body(0), body(1) ... body(n - 1) with constant indices from the start: arrays indexed by them become registers, which g++ 12
/// does not manage for loops that it unrolls itself.
template <int n, class Body>
inline __attribute__((always_inline)) void unroll(Body body) {
  unroll_over(std::make_integer_sequence<int, n>{}, body);
}

}  // namespace
}  // namespace krafla
