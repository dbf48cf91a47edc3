// What every target file needs before its primitives. Nothing here may become a weak symbol: the linker keeps
// one copy of those for the whole program, and it might keep one with instructions that the CPU does not
// have. So everything lives in an anonymous namespace.
#pragma once

#include <float.h>
#include <stddef.h>
#include <stdint.h>

#include <utility>  // integer_sequence: a type, no code

#include "base/float16.h"
#include "base/math.h"
#include "kernels/kernels.h"

#ifdef __FAST_MATH__
#error "the arithmetic contract does not hold under -ffast-math"
#endif
static_assert(FLT_EVAL_METHOD == 0, "floats must not be kept wider");

namespace krafla {
namespace {

using enum WeightType;

constexpr int kLanes = 8;  // of F and I
constexpr int kWide = 16;  // of W and WI: the rows of a tile

template <WeightType type>
constexpr size_t block_bytes = type == q4_0 ? 16 : 32;  // of a block of 32 weights in the file

/// Eight blocks of a quantized activation row, one for each lane of A3. Extra: other forms of the quants that
/// the instruction set multiplies by; its size is a multiple of 64 bytes, or it is empty. All is in one
/// struct, so that a tile's loop needs one register for its address.
template <class Extra>
struct alignas(64) EightBlocks {
  float d[8];
  int32_t minus8[8];  ///< -8 times the sum of the block's quants; where pack_extra() calls halve_minus8(),
                      ///< two int16 of half of it each
  int8_t q[8][32];
  [[no_unique_address]] Extra extra;
};

template <int i>
struct Index {
  constexpr operator int() const { return i; }
};

template <class Body, int... i>
inline __attribute__((always_inline)) void unroll_over(std::integer_sequence<int, i...>, Body body) {
  (body(Index<i>{}), ...);
}

/// body(0), body(1) ... body(n - 1) with indices that are constants, so that arrays indexed by them become
/// registers. g++ 12 does not manage that for loops that it unrolls itself.
template <int n, class Body>
inline __attribute__((always_inline)) void unroll(Body body) {
  unroll_over(std::make_integer_sequence<int, n>{}, body);
}

/// Makes the compiler compute the value here, into a register. g++ 12 would put the additions of a loop's
/// products off until it has no register left for the products.
template <class Vector>
inline __attribute__((always_inline)) void pin_to_register([[maybe_unused]] Vector& v) {
#if defined(KRAFLA_NO_PIN_TO_REGISTER)
#elif defined(__AVX512F__)
  __asm__("" : "+v"(v));
#elif defined(__SSE2__)
  __asm__("" : "+x"(v));
#endif
}

}  // namespace
}  // namespace krafla
