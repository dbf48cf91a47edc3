#include <immintrin.h>

#include "kernels/target.h"

namespace krafla {
namespace {
namespace avx2 {
#include "kernels/isa/avx2.h"
#include "kernels/target.inl.h"
}  // namespace avx2
}  // namespace

extern const Kernels kernels_avx2;
constexpr Kernels kernels_avx2 = avx2::table("avx2");

}  // namespace krafla
