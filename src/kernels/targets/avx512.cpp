#if defined(__GNUC__) && \
    !defined(__clang__)  // g++ 12 warns of its own header: _mm512_undefined_ps() is what it says
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include "kernels/target.h"

namespace krafla {
namespace {
namespace avx512 {
#include "kernels/isa/avx512.h"
#include "kernels/target.inl.h"
}  // namespace avx512
}  // namespace

extern const Kernels kernels_avx512;
constexpr Kernels kernels_avx512 = avx512::table("avx512");

}  // namespace krafla
