#if defined(__GNUC__) && \
    !defined(__clang__)  // g++ 12 warns of its own header: _mm512_undefined_ps() is what it says
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include "kernels/target.h"

namespace krafla {
namespace {
namespace avx512vnni {
#include "kernels/isa/avx512vnni.h"
#include "kernels/target.inl.h"
}  // namespace avx512vnni
}  // namespace

extern const Kernels kernels_avx512vnni;
constexpr Kernels kernels_avx512vnni = avx512vnni::table("avx512vnni");

}  // namespace krafla
